"""Trees: their shapes, how they grow and are judged, against lists and exact numbers."""

from itertools import product
from math import prod

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from test_loop import TREES, opened, rounds_of

from mmspec.decoding.acceptance import Verdict
from mmspec.decoding.host_framework import HOST
from mmspec.decoding.noise import Noise, exponentials
from mmspec.decoding.sampling import GREEDY, Sampling
from mmspec.decoding.tree import Tree, parse_tree
from mmspec.decoding.tree_drafting import draft_tree
from mmspec.ground.errors import UsageError
from support.scripted import PathExpander, paths

VOCABULARY = 7
NOISE = Noise(seed=3, position=50)
branchings = st.lists(st.integers(1, 4), min_size=1, max_size=4).map(tuple)


def said(path):
    """Some distribution after each path."""
    draws = np.random.default_rng([3, *(token + 1 for token in path)])
    logits = 2.0 * draws.normal(size=VOCABULARY)
    return (np.exp(logits) / np.exp(logits).sum()).astype(np.float32)


def flat(path):
    """All tokens equally likely, so that the order among equals decides everything."""
    return np.full(VOCABULARY, 1 / VOCABULARY, dtype=np.float32)


WARM = Sampling(1.0)


def noisy(rule):
    """What follows a path, p / E normalised: the noise of a level is one for all its nodes."""

    def confidence(path):
        E = exponentials(np, HOST.keys(NOISE, 9)[len(path)][None], HOST.ids(7))[0]
        return (rule(path) / E / (rule(path) / E).sum()).astype(np.float32)

    return confidence


RULES = [(said, said, GREEDY), (flat, flat, GREEDY), (said, noisy(said), WARM)]
"""Distributions after a path, the order in which the tree takes tokens, and the sampling."""


def drafted(rule, tree, k, sampling=GREEDY):
    """A tree of what `rule` says, under noise that is read where sampling is not greedy."""

    def project(path):
        return np.log(rule(path))

    arguments = PathExpander(project), tree, HOST.keys(NOISE, k)
    tree = draft_tree(HOST, HOST.sampler(sampling), *arguments)
    return tree.ids, tree.parents, tree.depth


def ranked(rule, path):
    """The ranks of a path's tokens, each among what follows the one before."""
    order = [np.argsort(-rule(path[:place]), kind="stable").tolist() for place in range(len(path))]
    return tuple(each.index(token) for each, token in zip(order, path, strict=True))


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (lambda: parse_tree("wide"), "`tree='wide'`"),
        (lambda: parse_tree("3,,1"), "`tree='3,,1'`"),
        (lambda: parse_tree("3,0"), "`tree=3,0`: give at least 1 child at every level"),
        (lambda: parse_tree("dynamic", 0), "`width=0`"),
        (lambda: parse_tree("2,2", nodes=0), "`nodes=0`"),
        (lambda: Tree(3), "`branching=3`: give whole numbers, such as (3, 2, 1)"),
        (lambda: Tree([3, 2]), "`branching=[3, 2]`"),
        (lambda: Tree((2.0,)), "`branching=(2.0,)`"),
        (lambda: Tree(nodes=2.5), "`nodes=2.5`: give a whole number"),
        (lambda: Tree(width="a"), "`width='a'`"),
    ],
)
def test_what_is_no_tree_is_named(given, told):
    with pytest.raises(UsageError) as error:
        given()
    assert told in str(error.value)


def every_path(branching):
    depths = range(1, 1 + len(branching))
    return [path for depth in depths for path in product(*map(range, branching[:depth]))]


@given(branchings, st.integers(1, 40), st.sampled_from(RULES))
def test_a_static_tree_takes_each_nodes_likeliest_children(branching, nodes, rules):
    rule, ranks, sampling = rules
    ids, parents, depth = drafted(rule, Tree(branching, nodes=nodes), 9, sampling)
    found = paths(ids.tolist(), parents.tolist())
    key = {path: prod(rank + 1 for rank in path) for path in every_path(branching)}
    expected = sorted(key, key=lambda path: (key[path], len(path), path))[:nodes]
    assert [ranked(ranks, path) for path in found] == sorted(expected, key=lambda p: (len(p), p))
    assert depth == max(map(len, found))


@pytest.mark.parametrize("tree", [Tree((50, 2)), Tree((), 50, 300)], ids=["static", "dynamic"])
def test_no_node_has_more_children_than_top_k_keeps_or_there_are_tokens(tree):
    for sampling, most in ((GREEDY, VOCABULARY), (Sampling(1.0, top_k=3), 3)):
        ids, parents, _ = drafted(said, tree, 2, sampling)
        children = ids[parents == -1].tolist()
        assert sorted(children) == sorted(np.argsort(-said([]))[:most].tolist())


def eagle(rule, tree, depth):
    """The candidates of every level in order, and the best of them: EAGLE-2 in lists."""
    chances = {(): 1.0}
    frontier, made = [()], []
    for _ in range(depth):
        level = []
        for path in frontier:
            values, tokens = HOST.top(rule(list(path)), min(tree.width, VOCABULARY))
            for value, token in zip(values, tokens, strict=True):
                level.append((*path, int(token)))
                chances[level[-1]] = np.float32(chances[path]) * value
        made += level
        best = sorted(range(len(level)), key=lambda place: -chances[level[place]])
        frontier = [level[place] for place in best[: tree.width]]
    best = sorted(range(len(made)), key=lambda place: -chances[made[place]])[: tree.nodes]
    return [list(made[place]) for place in sorted(best)]


@settings(max_examples=60)
@given(st.sampled_from(RULES), st.integers(1, 9), st.integers(1, 50), st.integers(1, 4))
@example(RULES[2], 3, 12, 3)
def test_a_dynamic_tree_is_eagles(rules, width, nodes, depth):
    rule, chances, sampling = rules
    tree = Tree((), width, nodes)
    ids, parents, levels = drafted(rule, tree, depth, sampling)
    assert paths(ids.tolist(), parents.tolist()) == eagle(chances, tree, depth)
    assert levels <= len(ids)


@given(st.sampled_from([Tree((), 3, 9), Tree((), 2, 4), Tree((3, 2, 1)), Tree((2, 2), nodes=4)]))
def test_an_output_is_placed_at_the_node_that_it_follows(tree):
    expanded = []

    def project(path):
        expanded.append(path)
        return np.log(said(path))

    draft = draft_tree(HOST, HOST.sampler(GREEDY), PathExpander(project), tree, HOST.keys(NOISE, 3))
    nodes = [[], *paths(draft.ids.tolist(), draft.parents.tolist())]
    places = [expanded.index(node) if node in expanded else -1 for node in nodes]
    assert draft.outputs().tolist() == places
    assert 0 < places.count(-1) < len(nodes)


@pytest.mark.parametrize(
    ("nodes", "k", "tree"),
    [
        (None, 8, Tree((), 10, 60)),
        (60, 8, Tree((), 10, 60)),
        (90, 8, Tree((), 10, 60)),
        (8, 8, None),
        (8, 5, Tree((), 3, 8)),
        (32, 5, Tree((), 7, 32)),
    ],
)
def test_a_tree_shrinks_to_a_number_of_nodes(nodes, k, tree):
    assert Tree().within(nodes, k) == tree


@pytest.mark.parametrize("tree", [None, TREES["static"]])
def test_with_the_target_as_its_own_draft_every_level_is_accepted(tree):
    target, twin = opened(sampling=Sampling(1.0), other_seed=0, tree=tree)
    rounds = rounds_of(target, twin, gamma=3, max_tokens=40, seed=5)
    assert all(each.accepted == each.depth for each in rounds)


@pytest.mark.parametrize(
    ("path", "first"),
    [
        ([], (0, 1)),  # the root's first child was rejected
        ([0], (1, 2)),
        ([1], (0, 1)),  # the second child was accepted, where a chain had the first
        ([0, 2], (2, 2)),  # nothing was drafted after it
        ([0, 3], (1, 2)),
        ([1, 4], (0, 1)),
    ],
)
def test_of_a_tree_the_first_choices_are_what_a_chain_would_have_had(path, first):
    verdict = Verdict([5, 6, 7, 8, 9], [-1, -1, 0, 0, 1], [0] * 6)
    assert verdict.first_choices(path) == first
