"""The loop against plain decoding, on a host-only target."""

from contextlib import suppress
from itertools import islice

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mmspec.chat.plugin_head import PluginDrafter
from mmspec.decoding.acceptance import Verdict, accept
from mmspec.decoding.contract import Segment
from mmspec.decoding.draft import DeviceDraft, HostDraft, Plan
from mmspec.decoding.loop import decode
from mmspec.decoding.noise import NO_NOISE
from mmspec.decoding.sampling import GREEDY, Sampling
from mmspec.decoding.tree import MOST_NODES, Tree
from mmspec.draft_length.policy import FixedDraftLength
from mmspec.drafters.lookup import LookupDrafter
from mmspec.drafters.surer import SurerDrafter
from mmspec.ground.errors import DraftError
from support.scripted import ScriptedDrafter, ScriptedTarget, logits

PROMPT = [3, 1, 4, 1, 5]


SAMPLINGS = {
    "T1": Sampling(1.0),
    "T0.6": Sampling(0.6),
    "top-k": Sampling(1.3, top_k=4),
    "top-p": Sampling(1.0, top_p=0.7),
    "both": Sampling(2.0, top_k=6, top_p=0.9),
}
TREES = {
    "static": Tree((3, 2, 2)),
    "cut": Tree((4, 3, 2, 1), nodes=7),
    "dynamic": Tree((), 3, 9),
}
chain_and_trees = pytest.mark.parametrize("tree", [None, *TREES.values()], ids=["chain", *TREES])


def opened(*, sampling=GREEDY, **drafter):
    target = ScriptedTarget(vocabulary=11, sampling=sampling)
    drafts = ScriptedDrafter(vocabulary=11, sampling=sampling, **drafter)
    target.extend(Segment([PROMPT]))
    drafts.extend([Segment([PROMPT])] * drafts.branches.rows)
    return target, drafts


class Miscounting(ScriptedTarget):
    """A target whose length does not grow."""

    length = len(PROMPT)


def rounds_of(target, drafter, *, gamma, **options):
    return list(decode(target, drafter, FixedDraftLength(gamma), **options))


def tokens(target, drafter, **options):
    return [token for each in rounds_of(target, drafter, **options) for token in each.tokens]


def greedy(count):
    sequence = list(PROMPT)
    for _ in range(count):
        sequence.append(int(logits(0, sequence, 11).argmax()))
    return sequence[len(PROMPT) :]


def plain(count, sampling, seed):
    return tokens(opened(sampling=sampling)[0], None, gamma=1, max_tokens=count, seed=seed)


def until_stop(answer, stop):
    return answer[: next(n for n, token in enumerate(answer) if token in stop) + 1]


@pytest.mark.parametrize("sampling", [GREEDY, *SAMPLINGS.values()], ids=["greedy", *SAMPLINGS])
@chain_and_trees
@pytest.mark.parametrize("gamma", [1, 5])
def test_speculation_equals_plain_decoding(gamma, tree, sampling):
    target, drafter = opened(sampling=sampling, tree=tree)
    answer = tokens(target, drafter, gamma=gamma, max_tokens=40, seed=gamma)
    assert answer == plain(40, sampling, seed=gamma)
    assert target.sequence == drafter.sequences[0]


@chain_and_trees
@pytest.mark.parametrize("budget", [1, 2, 5, 6, 7, 11])
def test_the_budget_is_exact(budget, tree):
    target, drafter = opened(tree=tree)
    assert tokens(target, drafter, gamma=5, max_tokens=budget) == greedy(budget)
    assert target.length == drafter.length == len(PROMPT) + budget


class DeepDrafter(ScriptedDrafter):
    """Knows the answer, and drafts more of it than the plan allows."""

    def __init__(self, excess, tree):
        super().__init__(other_seed=0, tree=tree)
        self.excess = excess

    def draft(self, plan, noise):
        return super().draft(plan._replace(gamma=plan.gamma + self.excess), noise)


def test_the_budget_holds_whatever_length_a_target_says():
    target = Miscounting(vocabulary=11, sampling=GREEDY)
    target.extend(Segment([PROMPT]))
    rounds = islice(decode(target, None, FixedDraftLength(1), max_tokens=9), 20)
    assert sum(len(round_.tokens) for round_ in rounds) == 9


@chain_and_trees
@pytest.mark.parametrize("beside_lookup", [False, True])
@settings(max_examples=20)
@given(st.integers(0, 9), st.integers(1, 6), st.integers(1, 20))
def test_a_draft_that_is_too_deep_never_exceeds_the_budget(
    tree, beside_lookup, excess, gamma, budget
):
    target, drafter = opened()[0], DeepDrafter(excess, tree)
    drafter.extend([Segment([PROMPT])])
    lookup = LookupDrafter(GREEDY)
    lookup.extend([Segment([PROMPT])])
    checked = PluginDrafter(drafter, "the drafter deep", tree, __name__)
    both = SurerDrafter(lookup, checked) if beside_lookup else checked
    refused = tree is None and excess and budget > 1
    with pytest.raises(DraftError, match="plan allows") if refused else suppress(DraftError):
        assert tokens(target, both, gamma=gamma, max_tokens=budget) == greedy(budget)
    assert target.sequence == drafter.sequences[0]
    assert target.sequence == (PROMPT + greedy(budget))[: target.length]


@pytest.mark.parametrize(
    ("opened_with", "plan", "most"),
    [
        (None, Plan(2, nodes=5), 5),
        (None, Plan(6, nodes=5), 6),
        (Tree(nodes=12), Plan(2, nodes=5), 5),
        (Tree(nodes=12), Plan(2), 12),
        (None, Plan(2), MOST_NODES),
    ],
)
def test_a_tree_of_more_nodes_than_the_plan_allows_is_refused(opened_with, plan, most):
    def drafted(draft):
        drafter = opened()[1]
        drafter.draft = lambda *_: draft
        wide = PluginDrafter(drafter, "the drafter wide", opened_with, __name__)
        return wide.draft(plan, NO_NOISE)

    assert drafted(HostDraft([1] * most, [-1] * most)).size == most
    with pytest.raises(DraftError, match=rf"it drafted a tree .* allows {most}: draft"):
        drafted(HostDraft([1] * (most + 1), [-1] * (most + 1)))
    for other in ([3], (3,), "ab", 3):
        with pytest.raises(DraftError, match=rf"it drafted a {type(other).__name__}: return Ho"):
            drafted(other)
    with pytest.raises(DraftError, match="it drafted 9 tokens on a path"):
        drafted(DeviceDraft(np.ones(9, int), depth=1))


MALFORMED = {
    "a list": lambda: [3],
    "no tokens": lambda: HostDraft([]),
    "floats": lambda: HostDraft([1.0]),
    "an array of floats": lambda: HostDraft(np.ones(2)),
    "an array of rows": lambda: HostDraft(np.ones((1, 2), int)),
    "beyond the vocabulary": lambda: HostDraft([3, 11]),
    "negative": lambda: HostDraft([3, -1]),
    "beyond 64 bits": lambda: HostDraft([2**70]),
    "a cycle": lambda: HostDraft([1, 2], [1, 0]),
    "its own parent": lambda: HostDraft([1, 2], [-1, 1]),
    "a parent before the root": lambda: HostDraft([1, 2], [-1, -2]),
    "a parent that is a float": lambda: HostDraft([1, 2], [-1, 0.0]),
    "few parents": lambda: HostDraft([1, 2], [-1]),
    "no parents": lambda: HostDraft([1, 2], []),
}


@pytest.mark.parametrize("draft", MALFORMED.values(), ids=MALFORMED)
def test_a_malformed_draft_is_refused_and_changes_nothing(draft, monkeypatch):
    target, drafter = opened()
    monkeypatch.setattr(drafter, "draft", lambda *_: draft())
    with pytest.raises(DraftError, match="Draft"):
        tokens(target, drafter, gamma=4, max_tokens=9)
    assert target.sequence == drafter.sequences[0] == PROMPT
    monkeypatch.setattr(drafter, "draft", lambda *_: HostDraft(np.array([1])))
    assert tokens(target, drafter, gamma=4, max_tokens=9) == greedy(9)


@chain_and_trees
@pytest.mark.parametrize("at", [1, 2, 3, 5, 6, 10])
def test_nothing_follows_a_stop_token(at, tree):
    stop = {greedy(40)[at]}
    expected = until_stop(greedy(40), stop)
    target, drafter = opened(tree=tree)
    assert tokens(target, drafter, gamma=4, max_tokens=40, stop=stop) == expected
    assert target.sequence == PROMPT + expected == drafter.sequences[0]


@pytest.mark.parametrize("at", range(7))
def test_a_stop_token_that_was_drafted_counts_as_accepted(at):
    stop = {greedy(40)[at]}
    expected = until_stop(greedy(40), stop)
    target, twin = opened(other_seed=0)
    *_, last = rounds_of(target, twin, gamma=4, max_tokens=40, stop=stop)
    size = (len(expected) - 1) % 5 + 1  # of four drafted tokens and one of the target's own
    assert (len(last.tokens), last.accepted) == (size, min(size, 4))


def test_the_path_follows_the_targets_tokens():
    verdict = Verdict([5, 6, 7, 8], [-1, -1, 1, 0], [6, 0, 7, 9, 0])
    assert accept(verdict) == ([1, 2], [6, 7, 9])
    assert accept(Verdict([5, 6, 7, 8], [-1, -1, 1, 0], [5, 8, 7, 9, 4])) == ([0, 3], [5, 8, 4])
    assert accept(Verdict([5, 6, 7, 8], [-1, -1, 1, 0], [7, 8, 7, 9, 4])) == ([], [7])
    assert accept(Verdict([], [], [3])) == ([], [3])
