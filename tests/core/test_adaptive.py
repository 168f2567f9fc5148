"""Adaptive weights against a dense history, and the weights that answers start and end with."""

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from mmspec.decoding.contract import Segment
from mmspec.decoding.draft import DeviceDraft
from mmspec.decoding.host_framework import HOST
from mmspec.decoding.loop import decode
from mmspec.decoding.sampling import GREEDY
from mmspec.draft_length.policy import FixedDraftLength
from mmspec.drafters.view_drafter import Tally
from support.adaptive_oracle import check, softmax
from support.scripted import ScriptedDrafter, ScriptedTarget

VIEWS = [[3, 1, 4, 1, 5], [9, 2, 5], [6, 5]]
VOCABULARY = 11
EVEN = np.array([0.5, 0.5], dtype=np.float32)


def probabilities(draws, *shape):
    """From flat to nearly certain; several share their likeliest token."""
    logits = draws.normal(size=shape) + 2 * draws.normal(size=shape[-1])
    return softmax(logits * draws.choice([0.3, 1.0, 4.0])).astype(np.float32)


def random_round(draws, branches, vocabulary):
    """Target and branches at gamma places, and how many tokens were appended."""
    gamma = int(draws.integers(1, 6))
    p, q = (probabilities(draws, gamma, *rows, vocabulary) for rows in ((), (branches,)))
    return p, q, int(draws.integers(1, gamma + 2))


def after(tally, p, q, tokens):
    """The tally after a chain of which `tokens` - 1 were accepted."""
    draft = DeviceDraft(np.zeros(len(q), dtype=np.int64), len(q), branch_probabilities=q)
    bonus = np.ones_like(p[:1])
    return tally.after(draft, np.log(np.concatenate([p, bonus])), range(tokens - 1))


@settings(max_examples=40)
@given(
    seed=st.integers(0, 2**32 - 1),
    branches=st.integers(2, 4),
    vocabulary=st.sampled_from([3, 17, 64]),
    rounds=st.integers(0, 6),
    out=st.integers(-1, 3),
)
@example(seed=156, branches=2, vocabulary=64, rounds=2, out=-1)
def test_weights_are_those_of_the_whole_history(seed, branches, vocabulary, rounds, out):
    draws = np.random.default_rng(seed)
    allowed = [0.0 if row == out else 1.0 for row in range(branches)]
    start = np.array(allowed, dtype=np.float32) / sum(allowed)
    tally, history = Tally.of(HOST, branches), []
    for _ in range(rounds):
        history.append(random_round(draws, branches, vocabulary))
        tally = after(tally, *history[-1])
    check(tally.weights(start), history, start)


def sure(right, gamma):
    """A target sure of token 0, and two branches, one of which predicts it and one predicts 1."""
    p = np.full((gamma, 4), 0.01, dtype=np.float32)
    p[:, 0] = 0.97
    q = np.stack([p, p[:, [1, 0, 2, 3]]], axis=1)
    return (p, q) if right == 0 else (p, q[:, ::-1])


def test_a_leaf_of_a_tree_does_not_count():
    p, q = sure(1, 3)
    outputs = np.array([0, 1, -1])  # root, a node that was expanded, a leaf
    draft = DeviceDraft(
        np.arange(2), 2, np.array([-1, 0]), lambda: outputs, branch_probabilities=q[:2]
    )
    for path, counted in (([], 1), ([0], 2), ([0, 1], 2)):
        tally = Tally.of(HOST, 2).after(draft, np.log(p), path)
        assert tally.tokens == counted
        np.testing.assert_allclose(tally.weights(EVEN), [0.0, 1.0])


def opened(sampling=GREEDY, rows=3, *, adaptive=True, **drafter):
    target = ScriptedTarget(vocabulary=VOCABULARY, sampling=sampling)
    views = ScriptedDrafter(
        rows, vocabulary=VOCABULARY, sampling=sampling, adaptive=adaptive, **drafter
    )
    target.extend(Segment([VIEWS[0]]))
    views.extend([Segment([[*view, 7]]) for view in VIEWS[:rows]])
    return target, views


def weighted_rounds(target, drafter, gamma, count):
    """Rounds with the weights of their drafts."""
    rounds = decode(target, drafter, FixedDraftLength(gamma), max_tokens=count)
    return [(each, tuple(drafter.weights)) for each in rounds]


@pytest.mark.parametrize("adaptive", [False, True])
def test_views_without_room_get_no_weight_and_none_draft_without_any(adaptive):
    target, drafter = opened(adaptive=adaptive, positions=12)
    done = weighted_rounds(target, drafter, 3, 16)
    lengths = [6, 4, 3]
    crowded = 0
    for each, weights in done[:-3]:  # the last ones draft less, for the answer ends
        room = [length + 3 <= 12 for length in lengths]
        assert bool(each.drafted) == any(room)
        if each.drafted:
            assert sum(weights) == pytest.approx(1, abs=1e-5)
            assert all(fits or not weight for weight, fits in zip(weights, room, strict=True))
            crowded += not all(room)
        lengths = [length + len(each.tokens) for length in lengths]
    assert crowded
    assert not any(room)
