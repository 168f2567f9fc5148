"""Trees: their shapes, how they grow, how they are judged; against lists and exact numbers."""

from itertools import product
from math import prod

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scripted_tree import ARRAYS, PathFrontier, paths, top

from mmspec import maths
from mmspec.errors import UsageError
from mmspec.growth import grow
from mmspec.options import Options
from mmspec.tree import Tree, parse_tree, shape

VOCABULARY = 7
branchings = st.lists(st.integers(1, 4), min_size=1, max_size=4).map(tuple)


def said(path, spread=2.0):
    """Some distribution after each path."""
    draws = np.random.default_rng([3, *(token + 1 for token in path)])
    logits = spread * draws.normal(size=VOCABULARY)
    return (np.exp(logits) / np.exp(logits).sum()).astype(np.float32)


def flat(path):
    """All tokens equally likely, so that the order among equals decides everything."""
    return np.full(VOCABULARY, 1 / VOCABULARY, dtype=np.float32)


def ranked(rule, path):
    """The ranks of a path's tokens, each among what follows the one before."""
    order = [np.argsort(-rule(path[:place]), kind="stable").tolist() for place in range(len(path))]
    return tuple(each.index(token) for each, token in zip(order, path, strict=True))


# Words


@pytest.mark.parametrize(
    ("word", "tree"),
    [("none", None), ("dynamic", Tree((), 4, 9)), ("3,2,1", Tree((3, 2, 1), 4, 9))],
)
def test_words_are_trees(word, tree):
    assert parse_tree(word, 4, 9) == tree
    assert tree is None or tree.word == word


def test_a_tree_has_the_published_size_where_nothing_is_said():
    assert parse_tree("dynamic") == Tree((), 10, 60)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (lambda: parse_tree("wide"), "--tree 'wide'"),
        (lambda: parse_tree("3,,1"), "--tree '3,,1'"),
        (lambda: parse_tree("3,0"), "--tree 3,0: every level needs at least 1 child"),
        (lambda: parse_tree("dynamic", 0), "--tree-width 0"),
        (lambda: parse_tree("2,2", nodes=0), "--tree-nodes 0"),
        (lambda: Options(drafting="ngram", tree=Tree()), "n-grams propose a chain"),
        (lambda: Options(proposal="draw", tree=Tree()), "never drawn"),
    ],
)
def test_what_is_no_tree_is_named(given, told):
    with pytest.raises(UsageError) as error:
        given()
    assert told in str(error.value)


def test_gamma_bounds_the_depth():
    assert [Tree((3, 2, 1)).depth(k) for k in (1, 3, 5)] == [1, 3, 3]
    assert [Tree().depth(k) for k in (1, 3, 5)] == [1, 3, 5]


# Static shapes


def every_path(branching):
    levels = (
        product(*(range(each) for each in branching[:n])) for n in range(1, 1 + len(branching))
    )
    return [path for level in levels for path in level]


@given(branchings, st.integers(1, 40))
def test_a_static_tree_keeps_the_least_products_and_their_ancestors(branching, nodes):
    def key(path):
        return prod(rank + 1 for rank in path), len(path), path

    kept = sorted(every_path(branching), key=key)[:nodes]
    made = shape(branching, nodes)
    order = sorted(kept, key=lambda path: (len(path), path))
    places = {path: place for place, path in enumerate(order)} | {(): -1}
    assert made.parents == tuple(places[path[:-1]] for path in order)


def test_a_huge_tree_is_cut_before_it_is_built():
    assert len(shape((50,) * 12, 60).parents) == 60


@given(branchings, st.integers(1, 40), st.sampled_from([said, flat]))
def test_a_static_tree_takes_each_nodes_likeliest_children(branching, nodes, rule):
    ids, parents, depth = grow(ARRAYS, PathFrontier(rule), Tree(branching, nodes=nodes), 9)
    found = paths(ids.tolist(), parents.tolist())
    key = {path: prod(rank + 1 for rank in path) for path in every_path(branching)}
    expected = sorted(key, key=lambda path: (key[path], len(path), path))[:nodes]
    assert [ranked(rule, path) for path in found] == sorted(expected, key=lambda p: (len(p), p))
    assert depth == max(map(len, found))


@pytest.mark.parametrize("k", [1, 2, 3, 4])
def test_no_path_of_a_static_tree_is_longer_than_asked(k):
    ids, parents, depth = grow(ARRAYS, PathFrontier(said), Tree((2, 2, 2)), k)
    assert max(map(len, paths(ids.tolist(), parents.tolist()))) == depth == min(k, 3)


def test_no_node_has_more_children_than_there_are_tokens():
    for tree in (Tree((50, 2)), Tree((), 50, 300)):
        ids, parents, _ = grow(ARRAYS, PathFrontier(said), tree, 2)
        assert sorted(ids[parents == -1].tolist()) == list(range(VOCABULARY))


# Dynamic trees


def eagle(rule, tree, depth):
    """The candidates of every level in order, and the best of them: EAGLE-2 in lists."""
    chances = {(): 1.0}
    frontier, made = [()], []
    for _ in range(depth):
        level = []
        for path in frontier:
            values, tokens = top(rule(list(path)), min(tree.width, VOCABULARY))
            for value, token in zip(values, tokens, strict=True):
                level.append((*path, int(token)))
                chances[level[-1]] = np.float32(chances[path]) * value
        made += level
        best = sorted(range(len(level)), key=lambda place: -chances[level[place]])
        frontier = [level[place] for place in best[: tree.width]]
    best = sorted(range(len(made)), key=lambda place: -chances[made[place]])[: tree.nodes]
    return [list(made[place]) for place in sorted(best)]


@pytest.mark.parametrize("rule", [said, flat])
@given(st.integers(1, 9), st.integers(1, 50), st.integers(1, 4))
def test_a_dynamic_tree_is_eagles(rule, width, nodes, depth):
    tree = Tree((), width, nodes)
    ids, parents, _ = grow(ARRAYS, PathFrontier(rule), tree, depth)
    assert paths(ids.tolist(), parents.tolist()) == eagle(rule, tree, depth)


def test_a_dynamic_tree_of_width_one_is_the_argmax_chain():
    ids, parents, depth = grow(ARRAYS, PathFrontier(said), Tree((), 1, 60), 4)
    chain = []
    for _ in range(4):
        chain.append(int(said(chain).argmax()))
    assert (ids.tolist(), parents.tolist(), depth) == (chain, [-1, 0, 1, 2], 4)


def test_a_child_that_rounding_makes_likelier_than_certain_keeps_its_parent():
    def rounded(path):
        """Weights such as 0.264, 0.359, 0.126 and 0.251 sum to more than one in float32."""
        certain = np.nextafter(np.float32(1), np.float32(2))
        first = 0.5 if not path else certain
        return np.array([first, 0.5 if not path else 0, 0, 0, 0, 0, 0], np.float32)

    ids, parents, _ = grow(ARRAYS, PathFrontier(rounded), Tree((), 2, 3), 3)
    assert paths(ids.tolist(), parents.tolist()) == [[0], [1], [0, 0]]


# Who sees whom


@given(branchings, st.integers(1, 40))
def test_a_node_sees_its_path_alone(branching, nodes):
    made = shape(branching, nodes)
    seen = maths.ancestry(np, np.array(made.parents), len(made.levels))
    assert seen[0].tolist() == [True] + [False] * len(made.parents)
    for node, parent in enumerate(made.parents):
        above = seen[parent + 1].copy()
        above[node + 1] = True
        assert seen[node + 1].tolist() == above.tolist()


# Judging


CHILDREN = [
    pytest.param([2], [-1], id="one"),
    pytest.param([2, 0, 5], [-1, -1, -1], id="siblings"),
    pytest.param([4, 2, 2, 1, 0, 3], [-1, -1, 0, 0, 1, 4], id="tree"),
    pytest.param(list(range(VOCABULARY)), [-1] * VOCABULARY, id="all"),
]
CUT = [0.5, 0, 0.25, 0, 0.25, 0, 0]
"""What top-k leaves: some children have no probability, and all of it may be theirs."""


def rows(count, first=None):
    p = np.stack([said([9, row], 1.0) for row in range(count)])
    return p if first is None else np.concatenate([np.array([first], dtype=np.float32), p[1:]])


@pytest.mark.parametrize("first", [None, CUT], ids=["dense", "cut"])
@pytest.mark.parametrize(("drafted", "parents"), CHILDREN)
def test_what_is_said_at_every_node_is_exactly_the_targets(drafted, parents, first):
    """The sum of all ways to say a token is its probability: kept in turn, or fallen back on."""
    p, count = rows(len(drafted) + 1, first), 4096
    draws = (np.arange(count, dtype=np.float32) + 0.5) / count
    told = [
        maths.judge_tree(np, p, np.array(drafted), np.array(parents), np.full(len(p), draw))
        for draw in draws[:: count // 512]
    ]
    accept, fallbacks = told[0][0], np.stack([each[1] for each in told])
    for at in range(len(p)):
        exact, left = np.zeros(VOCABULARY), 1.0
        for node in (n for n, parent in enumerate(parents) if parent == at - 1):
            exact[drafted[node]] += left * accept[node]
            left *= 1 - accept[node]
        if left > 1e-6:
            exact += left * np.bincount(fallbacks[:, at], minlength=VOCABULARY) / len(told)
        np.testing.assert_allclose(exact, p[at], atol=2 / 512)


def test_the_last_of_all_tokens_is_kept_for_certain():
    """What rounding leaves of 1 - sum would send it, once in a while, to an impossible token."""
    draws = np.random.default_rng(0)
    for _ in range(200):
        p = draws.dirichlet(np.ones(VOCABULARY) / 2, 1).astype(np.float32)
        p = np.concatenate([p, p, p])
        cut = np.where(p >= np.sort(p)[:, -2:-1], p, 0)
        pair = np.argsort(-p[0])[:2]
        accept, _ = maths.judge_tree(np, cut, pair, np.array([-1, -1]), np.full(3, 0.5))
        assert accept[1] == 1.0


def test_a_child_that_cannot_be_said_is_never_kept():
    p = np.array([[0.0, 1.0, 0.0]] * 4, dtype=np.float32)
    accept, fallback = maths.judge_tree(
        np, p, np.array([0, 1, 2]), np.array([-1, -1, -1]), np.zeros(4, dtype=np.float32)
    )
    assert accept.tolist() == [0.0, 1.0, 0.0]
    assert fallback[1:].tolist() == [1, 1, 1]
