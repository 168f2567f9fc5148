"""A model's own sequences: cut, broken, of uneven rows, fed with drafts that the host proposes."""

import numpy as np
import pytest

from mmspec.chat.options import Options
from mmspec.chat.plugins import load_backend
from mmspec.decoding.acceptance import accept
from mmspec.decoding.contract import Segment
from mmspec.decoding.draft import HostDraft
from mmspec.decoding.loop import decode
from mmspec.decoding.noise import NO_NOISE
from mmspec.decoding.sampling import GREEDY
from mmspec.decoding.tree import Tree
from mmspec.draft_length.policy import FixedDraftLength
from mmspec.drafters.view_drafter import ViewDrafter
from mmspec.families.grid import Grid
from support import factory
from support import sequence_helpers as helpers
from support.conformance_cases import (
    by_turns,
    check_replies,
    covering_cases,
    each_with_seeds,
    questions,
)
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


def test_a_target_cut_anywhere_continues_like_a_cold_one(pair, views):
    """Also inside an image, and with nothing appended to nothing."""
    target = pair[0].open_target(GREEDY)
    target.extend(Segment([[]]))
    for cut in (0, 2, 5, 12, 19, 22, 23, 38, 42, 45):
        target.rewind(0)
        target.extend(views[0])
        tokens = helpers.plain(target, 3)
        target.rewind(cut)
        assert target.length == cut
        target.extend(Segment([[50, 51]]))
        target.extend(Segment([[52]]))
        cold = helpers.target(pair[0], beginning(views[0], tokens, cut))
        np.testing.assert_allclose(target.logits(), cold.logits(), atol=1e-5)


def beginning(segment, tokens, cut):
    """The first `cut` tokens, the last image perhaps not whole, then three more of text."""
    ids = [*flat(segment), *tokens][:cut]
    left, images = ids.count(helpers.IMAGE), []
    for image in features(segment):
        if left:
            images.append(type(image)(image.rows[:left], Grid(1, min(left, image.positions))))
        left = max(left - image.positions, 0)
    return segment_of([*ids, 50, 51, 52], images)


def test_a_row_of_one_token_beside_longer_ones_drafts_as_alone(pair):
    """Its first columns are padding alone."""
    short = Segment([[42]])
    together, alone = (helpers.branches(pair[1], rows) for rows in ([short, helpers.TEXT], [short]))
    assert helpers.draft(together, 4, 1.0, 0.0).ids.tolist() == helpers.draft_ids(alone, 4)


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
    target, drafter = helpers.target(pair[0], views[0]), helpers.branches(pair[1], views)
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


def test_positions_past_the_trained_ones_still_run(backend, tmp_path):
    model = load_backend(backend).load(factory.tiny_llama(tmp_path / "a", positions=32))
    rows = [[4 + place % 300 for place in range(length)] for length in (700, 4)]
    drafter = helpers.branches(model, [Segment([row, [9]]) for row in rows])
    assert len(helpers.draft_ids(drafter, 5)) == 5


def test_rows_must_be_complete_and_end_alike(pair, views):
    drafter = helpers.branches(pair[1], views)
    with pytest.raises(ValueError, match="same token"):
        drafter.extend([Segment([[5]]), Segment([[6]]), Segment([[5]])])
    with pytest.raises(ValueError, match="3 branches"):
        drafter.extend([Segment([[5]])])


PROMPT = [1, 20, 21, 22, 30]


def opened(engine, sampling=GREEDY):
    target = engine.target.model.open_target(sampling)
    target.extend(Segment([PROMPT]))
    return target


def said(engine, count):
    """The target alone, by logits."""
    target, tokens = opened(engine), []
    for _ in range(count):
        token = int(target.logits().argmax())
        target.verify(None, NO_NOISE)
        target.commit([], token)
        tokens.append(token)
    return tokens


@pytest.mark.parametrize("right", [0, 2, 4])
def test_what_the_target_says_is_kept_and_the_rest_is_not(engine, right):
    expected = said(engine, 6)
    wrong = [(token + 1) % 300 for token in expected]
    proposal = expected[:right] + wrong[right:4]
    target = opened(engine)
    verdict = target.verify(HostDraft(proposal), NO_NOISE)
    assert (verdict.drafted, verdict.parents) == (proposal, [-1, 0, 1, 2])
    assert accept(verdict) == (list(range(right)), expected[: right + 1])
    target.commit(list(range(right)), expected[right])
    cold = opened(engine)
    cold.extend(Segment([expected[: right + 1]]))
    np.testing.assert_allclose(target.logits(), cold.logits(), atol=5e-5)
    target.rewind(len(PROMPT))
    np.testing.assert_allclose(target.logits(), opened(engine).logits(), atol=1e-5)


def test_host_and_device_drafts_may_follow_each_other(engine):
    """A drafter that is told of rounds it did not draft, and a target that takes both kinds."""
    expected = said(engine, 30)
    drafter = ViewDrafter(engine.draft.model.open_branches(1, 320, GREEDY), [1.0], None)
    drafter.extend([Segment([PROMPT])])
    target = opened(engine)

    class Turns:
        length = property(lambda self: drafter.length)
        turn = 0

        def draft(self, plan, noise):
            self.turn += 1
            at = target.length - len(PROMPT)
            self.hosted = self.turn % 2 == 0
            hosted = HostDraft([*expected[at : at + 1], 7, 7][: plan.gamma])
            return hosted if self.hosted else drafter.draft(plan, noise)

        def commit(self, path, tokens, verdict):
            drafter.commit([] if self.hosted else path, tokens, verdict)

    rounds = decode(target, Turns(), FixedDraftLength(3), max_tokens=30)
    assert [token for each in rounds for token in each.tokens] == expected


@each_with_seeds("drafting", ["lookup"])
def test_lookup_says_what_the_target_says(engine, backend, drafting, first_seed):
    drafted = accepted = 0
    cases = [case for case in covering_cases() if case.drafting == "T"]
    for case in by_turns(cases, backend, first_seed):
        tree = Tree(nodes=12) if case.gamma % 2 else None
        options = Options(drafting=drafting, gamma=case.gamma, tree=tree, max_new_tokens=14)
        chat = check_replies(engine, options, questions(case, first_seed + case.gamma % 4))
        drafted += chat.answer.statistics.drafted
        accepted += chat.answer.statistics.accepted
    assert 0 < accepted <= drafted
