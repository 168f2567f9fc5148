"""Whole decoding by trees against the target alone, on host-only models."""

from dataclasses import replace

import pytest
from chat_turns import OPTIONS, asked, check
from scripted_engine import picture, scripted_engine
from test_loop import PROMPT, Equal, chi_square_of, greedy, opened, tokens

from mmspec.draft import Verdict
from mmspec.errors import UsageError
from mmspec.loop import decode, until_stop
from mmspec.options import Options
from mmspec.sampling import GREEDY, Sampling
from mmspec.tree import Tree

TREES = {
    "static": Tree((3, 2, 2)),
    "cut": Tree((4, 3, 2, 1), nodes=7),
    "dynamic": Tree((), 3, 9),
    "wide": Tree((), 10, 60),
}
every_tree = pytest.mark.parametrize("tree", TREES.values(), ids=TREES)


@every_tree
@pytest.mark.parametrize("gamma", [1, 2, 5])
def test_greedy_decoding_equals_the_target_alone(tree, gamma):
    target, drafter = opened(tree=tree)
    assert tokens(target, drafter, gamma=gamma, max_tokens=60) == greedy(60)
    assert target.sequence == drafter.sequences[0]


@every_tree
@pytest.mark.parametrize("budget", range(1, 12))
def test_the_budget_is_exact(tree, budget):
    target, drafter = opened(tree=tree)
    assert tokens(target, drafter, gamma=5, max_tokens=budget) == greedy(budget)
    assert target.length == drafter.length == len(PROMPT) + budget


@every_tree
@pytest.mark.parametrize("at", range(1, 12))
def test_nothing_follows_a_stop_token(tree, at):
    stop = {greedy(40)[at]}
    target, drafter = opened(tree=tree)
    assert tokens(target, drafter, gamma=4, max_tokens=40, stop=stop) == until_stop(
        greedy(40), stop
    )
    assert target.sequence == PROMPT + until_stop(greedy(40), stop) == drafter.sequences[0]


def test_a_tree_keeps_more_than_its_likeliest_path():
    chain, tree = (
        list(decode(*opened(wrong_every=2, tree=each), Equal(), gamma=4, max_tokens=80))
        for each in (None, Tree((), 4, 40))
    )
    assert len(tree) < len(chain)
    assert max(each.accepted for each in tree) <= 4
    assert all(each.depth <= 4 < each.drafted for each in tree[:-4])


def test_rounds_count_nodes_and_levels():
    rounds = list(decode(*opened(tree=Tree((3, 2, 2))), Equal(), gamma=5, max_tokens=50))
    assert (rounds[0].drafted, rounds[0].depth) == (21, 3)
    assert (rounds[-1].depth, rounds[-1].drafted) != (3, 21)  # the budget's end
    assert 0 < sum(each.accepted for each in rounds) < sum(each.depth for each in rounds)
    chain = list(decode(*opened(), Equal(), gamma=3, max_tokens=20))
    assert all(each.depth == each.drafted for each in chain)


@pytest.mark.parametrize("tree", [Tree((3, 2)), Tree((), 3, 7)], ids=["static", "dynamic"])
@pytest.mark.parametrize(
    "sampling",
    [Sampling(1.0), Sampling(0.6), Sampling(1.3, top_k=2), Sampling(1.0, top_p=0.7)],
    ids=["T1", "T0.6", "top-k", "top-p"],
)
def test_sampling_is_exactly_the_targets(sampling, tree):
    """With a draft that is wrong at every place; 99.9 % of chi-square with 15 degrees."""

    def pair():
        draft = {"draft_sampling": GREEDY, "wrong_every": 1, "tree": tree}
        return opened(vocabulary=4, sampling=sampling, **draft)

    assert chi_square_of(pair, sampling, count=1000) < 37.7


@pytest.mark.parametrize("path", [[1], [0, 2], [0, 0], [2, 3], [4], [-1], [3, 0]])
def test_what_is_no_path_is_refused(path):
    verdict = Verdict([5, 6, 7, 8], [-1, 0, -1, 0], [1.0] * 4, [0] * 5)
    with pytest.raises(ValueError, match="no path"):
        verdict.along(path)
    assert verdict.along([0, 3]) == [5, 8]
    assert verdict.along([]) == []


# Conversations


@every_tree
def test_turns_are_answered_like_cold_runs(engine, tree):
    chat = engine.chat(replace(OPTIONS, drafting="MTC", tree=tree, max_new_tokens=30))
    check(chat, "What is this?", picture(1))
    check(chat, "And this?", picture(2), picture(1))
    chat.conversation.undo()
    check(chat, "Why?")
    for _ in chat.retry():
        pass
    check(chat, "Why?")
    statistics = chat.answer.statistics
    assert 0 < statistics.acceptance_rate <= 1
    assert statistics.depth < statistics.drafted
    assert statistics.acceptance_rate == statistics.accepted / statistics.depth


def test_draft_lengths_are_learned_apart_from_those_of_chains(engine):
    options = replace(OPTIONS, gamma="auto", drafting="T", max_new_tokens=60)
    for tree in (None, Tree((), 4, 20), Tree((2, 2))):
        chat = engine.chat(replace(options, tree=tree))
        check(chat, "What is this?", picture(1))
    drafting = chat.answer.drafting
    clocks = [engine.lengths(drafting, tree)._clock for tree in (None, Tree((), 4, 20))]
    assert min(clocks) > 0
    assert engine.lengths(drafting) is not engine.lengths(drafting, Tree((2, 2)))


def test_a_tree_needs_a_draft_unless_nothing_is_drafted(directory):
    alone = scripted_engine(directory, draft=None)
    with pytest.raises(UsageError, match="--tree 3,2 needs a draft"):
        alone.chat(Options(tree=Tree((3, 2))))
    chat = alone.chat(replace(OPTIONS, drafting="none", tree=Tree((3, 2))))
    asked(chat, "What is this?", picture(1))
    assert chat.answer.statistics.drafted == 0
