"""Drafts that the host proposes, and lookup through whole conversations, on every backend."""

from dataclasses import replace

import numpy as np
import pytest

from mmspec.chat.options import Options
from mmspec.decoding.acceptance import accept
from mmspec.decoding.contract import Segment
from mmspec.decoding.draft import HostDraft
from mmspec.decoding.loop import decode
from mmspec.decoding.noise import NO_NOISE
from mmspec.decoding.sampling import GREEDY, Sampling
from mmspec.decoding.tree import Tree
from mmspec.draft_length.policy import FixedDraftLength
from mmspec.drafters.view_drafter import ViewDrafter
from support.conformance_cases import (
    PICTURES,
    check_replies,
    covering_cases,
    each_with_seeds,
    questions,
    small,
)

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


@pytest.mark.parametrize("right", range(5))
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
def test_lookup_says_what_the_target_says(engine, drafting, first_seed):
    drafted = accepted = 0
    cases = [case for case in covering_cases() if case.drafting == "T"]
    for case in cases:
        tree = Tree(nodes=12) if case.gamma % 2 else None
        options = Options(drafting=drafting, gamma=case.gamma, tree=tree, max_new_tokens=14)
        chat = check_replies(engine, options, questions(case, first_seed + case.gamma % 4))
        drafted += chat.answer.statistics.drafted
        accepted += chat.answer.statistics.accepted
    assert 0 < accepted <= drafted


def test_chosen_lengths_change_no_token(engine):
    options = small(engine, "MT", gamma="auto", max_new_tokens=40)
    asked = [("What is in the picture?", PICTURES[:1]), ("Which bar is the tallest?", ())]
    check_replies(engine, options, asked)
    check_replies(engine, replace(options, sampling=Sampling(1.0), seed=4), asked)
