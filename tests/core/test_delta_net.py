"""Gated DeltaNet in numpy: rows one by one and in chunks, and the way back to earlier columns."""

from functools import partial

import numpy as np
import pytest

from mmspec.decoding import delta_states
from mmspec.decoding.delta_net import DeltaNet, DeltaNetWeights, new_states
from mmspec.decoding.host_framework import HOST
from mmspec.families.decoder import DeltaNetConfig

SIZES = DeltaNetConfig(layers=(0, 2), key_heads=2, value_heads=6, key_dim=5, value_dim=3, window=4)
ROW = SIZES.channels + 6 * (SIZES.value_dim + 2)


def draws(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape, dtype=np.float32)


NET = DeltaNet(
    HOST,
    SIZES,
    DeltaNetWeights(draws(SIZES.channels, 1, 4), draws(6) - 3, draws(6), draws(3) + 1),
    1e-6,
)


@pytest.fixture
def states():
    return new_states(HOST, SIZES, np.float32)


def feed(states, start, rows, steps):
    """The outputs of both layers for rows fed from a column on."""
    states.steps = steps
    layers = states.layers_with(["attention"], start)
    assert layers[1] == "attention"
    return np.concatenate([NET(rows, layers[place]) for place in (0, 2)])


def held(states, column):
    """Both layers' states and windows at a column."""
    return [part.tobytes() for memory in states.layers_with([], column) for part in memory.last[1:]]


@pytest.mark.parametrize("count", [1, 5, 63, 64, 65, 200])
def test_chunks_compute_what_rows_one_by_one_do(states, count):
    rows, other = draws(count, ROW, seed=count), new_states(HOST, SIZES, np.float32)
    close = partial(np.testing.assert_allclose, atol=1e-5, rtol=1e-5)  # numbers of up to ten
    close(feed(states, 0, rows, 0), feed(other, 0, rows, None))
    pairs = zip(states.layers_with([], count), other.layers_with([], count), strict=True)
    for one, two in pairs:
        close(one.last.state, two.last.state)
        assert np.array_equal(one.last.window, two.last.window)


@pytest.mark.parametrize("kept", range(8))
def test_going_back_gives_the_bits_of_rows_that_were_never_fed(states, kept):
    """Also where a draft was fed in parts, as by a draft model; padding changes nothing."""
    prompt, rows = draws(70, ROW, seed=1), draws(7, ROW, seed=2)
    feed(states, 0, prompt, 0)
    first = feed(states, 70, rows[:4], 3)
    feed(states, 73, rows[3:], None)
    assert states.resume(70 + kept) == 70 + kept
    other = new_states(HOST, SIZES, np.float32)
    feed(other, 0, prompt, 0)
    for row in range(kept):
        alone = feed(other, 70 + row, rows[row : row + 1], None)
        if row < 3:
            assert first.reshape(2, 4, -1)[:, row].tobytes() == alone.tobytes()
    assert held(states, 70 + kept) == held(other, 70 + kept)


def test_borders_of_turns_are_kept_and_the_oldest_is_dropped_first(states, monkeypatch):
    monkeypatch.setattr(delta_states, "MOST_BORDERS", 2)
    column, at = 0, {}
    for turn in range(3):
        for decodes in (False, True):
            assert states.resume(column) == column
            states.mark(decodes=decodes)
            at[column] = held(states, column)
            feed(states, column, draws(5, ROW, seed=turn), None if decodes else 0)
            column += 5
    assert states.resume(20) == 20
    assert held(states, 20) == at[20]
    assert states.resume(12) == 0  # the borders at 5, 10 and 15 are gone, and so is all after 12
    assert held(states, 0) == at[0]


def test_a_fault_within_a_forward_changes_nothing_that_was_there(states):
    """Layers that were done are ahead of the others, and go back."""
    feed(states, 0, draws(9, ROW), 0)
    before = held(states, 9)
    states.steps = None
    NET(draws(2, ROW), states.layers_with([], 9)[0])
    with pytest.raises(ValueError, match="not at column 9"):
        states.layers_with([], 9)
    assert states.resume(9) == 9
    assert held(states, 9) == before
