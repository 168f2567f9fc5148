"""One read per round, no copied caches, and faults that leave no trace."""

from collections import Counter

import mlx.core as mx
import mlx_oracle as oracle
import pytest

from mmspec.tree import Tree
from mmspec_mlx import host


@oracle.both_samplings
def test_each_round_reads_one_array_once(pair, views, sampling, monkeypatch):
    target = oracle.target(pair[0], views[0], sampling)
    drafter = oracle.drafter(pair[1], views, sampling)
    calls = Counter()
    for name in ("integers", "floats", "float32", "raw"):
        original = getattr(host, name)

        def spy(array, _name=name, _original=original):
            calls["read"] += 1
            return _original(array)

        monkeypatch.setattr(host, name, spy)
    monkeypatch.setattr(mx, "eval", lambda *_: calls.update(["eval"]))
    done = oracle.rounds(target, drafter, 60, seed=oracle.seed(sampling))
    assert calls == {"read": len(done)}


def test_each_drafted_token_is_begun_while_the_next_is_listed(pair, views, monkeypatch):
    drafter, begun = oracle.drafter(pair[1], views), []
    monkeypatch.setattr(mx, "async_eval", lambda *arrays: begun.extend(arrays))
    draft = drafter.draft(4, oracle.even(drafter), ())
    tokens = [array.item() for array in begun if array.dtype == mx.uint32]
    assert tokens == draft.ids.tolist()


@pytest.mark.parametrize("tree", [None, Tree((3, 2, 2))], ids=["chain", "tree"])
def test_rounds_write_into_the_cache_and_never_copy_it(pair, views, tree):
    """With room for 30,000 columns, one layer's copy would double what a round needs."""
    target = oracle.target(pair[0], views[0])
    drafter = oracle.drafter(pair[1], views, tree=tree)
    oracle.rounds(target, drafter, 10)
    columns, heads, width = 30_000, 4, 16
    for each in (target, drafter):
        each._cache.reserve(columns)
        each._cache.settle()
    layer = 2 * heads * columns * width * 4
    mx.reset_peak_memory()
    before = mx.get_active_memory()
    oracle.rounds(target, drafter, 30)
    assert mx.get_peak_memory() - before < layer


@oracle.both_samplings
@pytest.mark.parametrize("call", [0, 1, 2, 3, 9, 14, 20, 27])
@pytest.mark.parametrize("victim", [0, 1], ids=["target", "drafter"])
def test_a_fault_anywhere_leaves_both_sequences_as_they_were(pair, views, sampling, call, victim):
    def opened():
        target = oracle.target(pair[0], views[0], sampling)
        return target, oracle.drafter(pair[1], views, sampling)

    expected = oracle.tokens(oracle.rounds(*opened(), 30, seed=oracle.seed(sampling)))
    target, drafter = opened()
    lengths = target.length, drafter.length
    with pytest.raises(oracle.Fault), oracle.failing(pair[victim], call):
        turn(target, drafter, views, sampling)
    target.rewind(lengths[0])
    drafter.rewind(lengths[1])
    assert oracle.tokens(oracle.rounds(target, drafter, 30, seed=oracle.seed(sampling))) == expected


def turn(target, drafter, views, sampling):
    oracle.rounds(target, drafter, 6, seed=oracle.seed(sampling))
    target.extend(views[0])
    drafter.extend(views)
    oracle.rounds(target, drafter, 40, seed=oracle.seed(sampling))


def test_a_fault_in_a_step_can_be_tried_again(pair, views):
    """Without any rewind: the step simply did not happen."""
    target, drafter = oracle.target(pair[0], views[0]), oracle.drafter(pair[1], views)
    expected = oracle.tokens(
        oracle.rounds(oracle.target(pair[0], views[0]), oracle.drafter(pair[1], views), 20)
    )
    said = []
    while len(said) < 20:
        with pytest.raises(oracle.Fault), oracle.failing(pair[1], 3):
            drafter.draft(4, oracle.even(drafter), ())
        with pytest.raises(oracle.Fault), oracle.failing(pair[0], 1):
            target.verify(None, ())
        said += oracle.tokens(oracle.rounds(target, drafter, 4, gamma=3))
    assert said[:20] == expected
