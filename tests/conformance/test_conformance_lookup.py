"""Drafts that the host proposes, and lookup through whole conversations, on every backend."""

from dataclasses import replace

import numpy as np
import pytest
from conformance_cases import PICTURES, covering_cases, plainly, questions, replies, small

from mmspec.draft import HostDraft
from mmspec.loop import decode
from mmspec.options import Options
from mmspec.sampling import GREEDY, Sampling
from mmspec.seam import Segment

PROMPT = [1, 20, 21, 22, 30]


def opened(engine, sampling=GREEDY):
    target = engine.target.model.open_target(sampling)
    target.extend(Segment(PROMPT))
    return target


def said(engine, count):
    """The target alone, by logits."""
    target, tokens = opened(engine), []
    for _ in range(count):
        token = int(target.logits().argmax())
        target.verify(None, ())
        target.commit([], token)
        tokens.append(token)
    return tokens


@pytest.mark.parametrize("right", range(5))
def test_what_the_target_says_is_kept_and_the_rest_is_not(engine, right):
    expected = said(engine, 6)
    wrong = [(token + 1) % 300 for token in expected]
    proposal = expected[:right] + wrong[right:4]
    target = opened(engine)
    verdict = target.verify(HostDraft(proposal), ())
    assert (verdict.drafted, verdict.parents) == (proposal, [-1, 0, 1, 2])
    assert verdict.accept[:right] == [1.0] * right
    assert verdict.accept[right : right + 1] == [0.0] * (right < 4)
    assert verdict.fallback[right] == expected[right]
    target.commit(list(range(right)), expected[right])
    cold = opened(engine)
    cold.extend(Segment(expected[: right + 1]))
    np.testing.assert_allclose(target.logits(), cold.logits(), atol=5e-5)
    target.rewind(len(PROMPT))
    np.testing.assert_allclose(target.logits(), opened(engine).logits(), atol=1e-5)


def test_a_proposal_is_kept_as_often_as_the_target_says_it(engine):
    """A point mass is accepted with p, and its residual is p without it."""
    target = opened(engine, Sampling(1.0))
    p = np.exp(target.logits().astype(np.float64))
    p /= p.sum()
    token = int(p.argmax())
    for draw in (0.0, 0.3, 0.9):
        verdict = target.verify(HostDraft([token, 5]), [draw, 0.5, 0.5])
        assert verdict.accept[0] == pytest.approx(p[token], rel=1e-3)
        rest = np.concatenate(([0.0], np.where(np.arange(len(p)) == token, 0, p).cumsum()))
        at = verdict.fallback[0]
        assert rest[at] - 1e-5 <= draw * rest[-1] <= rest[at + 1] + 1e-5
        assert at != token


class Lookup:
    """Drafts nothing, or what it was told to."""

    def weights(self, row_lengths, gamma):
        return [1.0]


def test_host_and_device_drafts_may_follow_each_other(engine):
    """A drafter that is told of rounds it did not draft, and a target that takes both kinds."""
    expected = said(engine, 30)
    drafter = engine.draft.model.open_drafter(1, 320, GREEDY)
    drafter.extend([Segment(PROMPT)])
    target = opened(engine)

    class Turns:
        length = property(lambda self: drafter.length)
        row_lengths = property(lambda self: drafter.row_lengths)
        turn = 0

        def draft(self, k, weights, draws):
            self.turn += 1
            at = target.length - len(PROMPT)
            self.hosted = self.turn % 2 == 0
            hosted = HostDraft([*expected[at : at + 1], 7, 7][:k])
            return hosted if self.hosted else drafter.draft(k, weights, draws)

        def commit(self, path, tokens):
            drafter.commit([] if self.hosted else path, tokens)

    rounds = decode(target, Turns(), Lookup(), gamma=3, max_tokens=30)
    assert [token for each in rounds for token in each.tokens] == expected


def test_lookup_says_what_the_target_says(engine):
    drafted = accepted = 0
    cases = [case for case in covering_cases() if case.drafting == "T"]
    for seed, case in enumerate(cases):
        options = Options(drafting="ngram", gamma=case.gamma, max_new_tokens=14)
        asked = list(questions(case, seed))
        chat = engine.chat(options)
        assert replies(chat, asked) == replies(engine.chat(plainly(options)), asked), case
        drafted += chat.answer.statistics.drafted
        accepted += chat.answer.statistics.accepted
    assert 0 < accepted <= drafted


def test_chosen_lengths_change_no_token(engine):
    options = small(engine, "MT", gamma="auto", max_new_tokens=40)
    asked = [("What is in the picture?", PICTURES[:1]), ("Which bar is the tallest?", ())]
    assert replies(engine.chat(options), asked) == replies(engine.chat(plainly(options)), asked)
    drawn = replace(options, sampling=Sampling(1.0), gamma="auto")
    assert all(replies(engine.chat(drawn), asked))
