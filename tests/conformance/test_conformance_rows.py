"""A model's own sequences: cut anywhere, broken anywhere, of uneven rows and odd vocabularies."""

from importlib import import_module

import numpy as np
import pytest

from mmspec.chat.plugins import load_backend
from mmspec.decoding.contract import Segment
from mmspec.decoding.noise import NO_NOISE
from mmspec.decoding.sampling import GREEDY, Sampling
from mmspec.families.grid import Grid
from support import factory
from support import sequence_helpers as helpers
from support.faults import Fault
from support.segments import features, flat, segment_of


@pytest.fixture(scope="session")
def pair(engine):
    """A target's model and a draft's."""
    return [engine.target.model, engine.draft.model]


@pytest.fixture(scope="session")
def views(pair):
    """One prompt of two images as M, T and P see it."""
    return helpers.views_of(pair[0])


@pytest.fixture
def network(backend):
    """The backend's modules."""
    return lambda name: import_module(f"mmspec_{backend}.network.{name}")


@pytest.fixture
def tiny(backend, tmp_path):
    """Loads a Llama of given sizes."""
    loaded = load_backend(backend)
    return lambda **sizes: loaded.load(factory.tiny_llama(tmp_path / "a", **sizes), device="cpu")


# Targets


@pytest.mark.parametrize("cut", [0, 2, 5, 12, 19, 22, 23, 38, 42, 45])
def test_a_target_cut_anywhere_continues_like_a_cold_one(pair, views, cut):
    """Also inside an image."""
    target = helpers.target(pair[0], views[0])
    expected, tokens = target.logits(), helpers.plain(target, 3)
    target.rewind(cut)
    assert target.length == cut
    target.extend(Segment([[50, 51]]))
    target.extend(Segment([[52]]))
    cold = helpers.target(pair[0], beginning(views[0], tokens, cut))
    np.testing.assert_allclose(target.logits(), cold.logits(), atol=1e-5)
    target.rewind(0)
    target.extend(views[0])
    np.testing.assert_allclose(target.logits(), expected, atol=1e-5)


def beginning(segment, tokens, cut):
    """The first `cut` tokens, the last image perhaps not whole, then three more of text."""
    ids = [*flat(segment), *tokens][:cut]
    left, images = ids.count(helpers.IMAGE), []
    for image in features(segment):
        images += (
            [type(image)(image.rows[:left], Grid(1, min(left, image.positions)))] if left else []
        )
        left = max(left - image.positions, 0)
    return segment_of([*ids, 50, 51, 52], images)


def test_a_rewound_prompt_equals_its_beginning(pair):
    target = helpers.target(pair[0], helpers.TEXT)
    for length in range(len(helpers.TEXT), 0, -1):
        target.rewind(length)
        cold = helpers.target(pair[0], Segment([flat(helpers.TEXT)[:length]]))
        np.testing.assert_allclose(target.logits(), cold.logits(), atol=1e-5)


def test_nothing_may_be_appended_to_nothing(pair):
    target = pair[0].open_target(GREEDY)
    target.extend(Segment([[]]))
    target.extend(helpers.TEXT)
    np.testing.assert_array_equal(target.logits(), helpers.target(pair[0], helpers.TEXT).logits())


def test_rejected_drafts_leave_nothing(pair, views):
    """A draft of which nothing is kept equals no draft."""
    target, alone = (helpers.target(pair[0], views[0]) for _ in range(2))
    stranger = helpers.branches(pair[1], views[1:2])
    for _ in range(6):
        token = target.verify(helpers.draft(stranger, 5, 1.0), NO_NOISE).best[0]
        target.commit([], token)
        stranger.commit([], [token])
        assert helpers.plain(alone, 1) == [token]
        np.testing.assert_allclose(target.logits(), alone.logits(), atol=1e-5)


def test_growing_past_a_step_of_the_cache_and_the_angles_changes_nothing(tiny, network):
    step = network("cache").STEP
    model = tiny(positions=2 * step + 64)
    tokens = [4 + i * i % 300 for i in range(2 * step + 20)]
    slow = helpers.target(model, Segment([tokens[: step - 3]]))
    for token in tokens[step - 3 :]:
        slow.extend(Segment([[token]]))
    whole = helpers.target(model, Segment([tokens]))
    np.testing.assert_allclose(slow.logits(), whole.logits(), atol=1e-4)


# Drafters


def test_rows_of_a_batch_say_what_each_says_alone(pair, views, network, monkeypatch):
    """Over two turns that lengthen the rows unevenly, with padding and pending tokens."""
    language, rows = network("decoder").LanguageModel, []
    original = language.logits
    monkeypatch.setattr(
        language, "logits", lambda *given: rows.append(original(*given)) or rows[-1]
    )

    def logits(chosen):
        rows.clear()
        drafter = helpers.branches(pair[1], chosen)
        for tokens in ([60, 61], [62]):
            helpers.draft_ids(drafter, 1)
            drafter.commit([], tokens)
        drafter.extend(chosen)
        helpers.draft_ids(drafter, 1)
        return drafter.row_lengths, np.stack([np.array(row.tolist()) for row in rows])

    lengths, together = logits(views)
    for row, view in enumerate(views):
        length, alone = logits([view])
        assert length == [lengths[row]] == [2 * len(view) + 3]
        np.testing.assert_allclose(together[:, row], alone[:, 0], atol=1e-5)


def test_weights_may_change_between_drafts(pair, views):
    alone = [helpers.draft_ids(helpers.branches(pair[1], [view]), 4) for view in views]
    assert len({tuple(ids) for ids in alone}) > 1
    together = helpers.branches(pair[1], views)
    for turn in (0, 1, 2, 0):
        weights = [float(row == turn) for row in range(len(views))]
        assert helpers.draft(together, 4, *weights).ids.tolist() == alone[turn]


def test_a_row_of_one_token_beside_longer_ones_drafts_as_alone(pair):
    """Its first columns are padding alone."""
    short = Segment([[42]])
    together, alone = (helpers.branches(pair[1], rows) for rows in ([short, helpers.TEXT], [short]))
    assert helpers.draft(together, 4, 1.0, 0.0).ids.tolist() == helpers.draft_ids(alone, 4)


@pytest.mark.parametrize("sampling", [GREEDY, helpers.DRAWN], ids=["greedy", "drawn"])
def test_a_twin_is_always_accepted_even_after_rejections(pair, views, sampling):
    """A stale draft cache costs acceptance alone, so nothing else shows it."""
    target = helpers.target(pair[0], views[0], sampling)
    twin = helpers.branches(pair[0], views[:2], sampling)
    first = helpers.rounds(target, twin, 40, seed=1)
    assert any(each.accepted < each.drafted for each in first)
    later = helpers.rounds(target, twin, 40, 1.0, 0.0, seed=1)
    assert all(each.accepted == each.drafted for each in later)


def test_a_drafter_catches_up_after_plain_rounds(pair, views):
    target, twin = (
        helpers.target(pair[0], views[0]),
        helpers.branches(pair[0], views[:1]),
    )
    for token in helpers.plain(target, 7):
        twin.commit([], [token])
    assert all(each.accepted == each.drafted for each in helpers.rounds(target, twin, 20))


@pytest.mark.parametrize("gamma", [1, 4])
def test_void_drafts_and_rounds_of_any_length_keep_the_draft_cache_right(pair, views, gamma):
    """A cold drafter over the same tokens drafts the same."""
    target = helpers.target(pair[0], views[0])
    drafter, cold = (helpers.branches(pair[1], views) for _ in range(2))
    helpers.draft_ids(drafter, 5)
    helpers.draft_ids(drafter, 3)
    cold.commit([], helpers.tokens(helpers.rounds(target, drafter, 25, gamma=gamma)))
    helpers.draft_ids(drafter, 2)
    assert (drafter.length, drafter.row_lengths) == (cold.length, cold.row_lengths)
    assert helpers.draft_ids(drafter, 6) == helpers.draft_ids(cold, 6)


def test_a_fault_in_a_step_can_be_tried_again(pair, views):
    """Without any rewind: the step did not happen, and a draft that broke voids the one before."""
    target, drafter = (
        helpers.target(pair[0], views[0]),
        helpers.branches(pair[1], views),
    )
    expected = helpers.plain(helpers.target(pair[0], views[0]), 20)
    tokens = []
    while len(tokens) < 20:
        helpers.draft_ids(drafter, 4)
        with pytest.raises(Fault), helpers.failing(pair[1:], 3):
            helpers.draft_ids(drafter, 4)
        with pytest.raises(ValueError, match="draft 0 deep"):
            drafter.commit([0], [60, 61])
        with pytest.raises(Fault), helpers.failing(pair[:1], 1):
            target.verify(None, NO_NOISE)
        tokens += helpers.tokens(helpers.rounds(target, drafter, 4, gamma=3))
    assert tokens == expected


def test_drafted_ids_stay_in_the_shared_vocabulary(tiny, pair):
    wide = helpers.branches(tiny(vocab_size=384), [helpers.TEXT] * 2, Sampling(temperature=50.0))
    assert max(helpers.draft_ids(wide, 40)) < 320
    narrow = pair[0].open_branches(2, 384, helpers.DRAWN, probabilities=True)
    narrow.extend([helpers.TEXT] * 2)
    q = np.array(helpers.draft(narrow, 3).branch_probabilities.tolist())
    assert q.shape == (3, 2, 384)
    assert not q[..., 320:].any()
    narrow.commit([], [383])  # a token that the draft has no embedding of
    assert helpers.draft(narrow, 1).size == 1


def test_positions_past_the_trained_ones_still_run(tiny):
    rows = [[4 + place % 300 for place in range(length)] for length in (700, 4)]
    drafter = helpers.branches(tiny(positions=32), [Segment([row, [9]]) for row in rows])
    assert len(helpers.draft_ids(drafter, 5)) == 5


# What is refused


def test_rows_must_be_complete_and_end_alike(pair, views):
    drafter = helpers.branches(pair[1], views)
    with pytest.raises(ValueError, match="same token"):
        drafter.extend([Segment([[5]]), Segment([[6]]), Segment([[5]])])
    with pytest.raises(ValueError, match="3 branches"):
        drafter.extend([Segment([[5]])])


def test_commits_that_follow_no_verification_are_refused(pair, views):
    target, drafter = (
        helpers.target(pair[0], views[0]),
        helpers.branches(pair[1], views),
    )
    with pytest.raises(ValueError, match="verified just now"):
        target.commit([], 5)
    with pytest.raises(ValueError, match="draft 0 deep"):
        drafter.commit([0], [5])
    target.verify(helpers.draft(drafter, 2), NO_NOISE)
    with pytest.raises(ValueError, match="no path"):
        target.commit([1], 5)
    with pytest.raises(ValueError, match="draft 2 deep"):
        drafter.commit([0, 1, 2], [5, 6, 7])
    for sequence in (target, drafter):
        with pytest.raises(ValueError, match="cannot rewind"):
            sequence.rewind(sequence.length + 1)
