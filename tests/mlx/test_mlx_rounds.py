"""What only MLX shows of a round: when work begins, and that no cache is copied."""

import mlx.core as mx
import pytest

from mmspec.decoding.tree import Tree
from support import sequence_helpers as helpers


def test_each_drafted_token_is_begun_while_the_next_is_listed(pair, views, monkeypatch):
    drafter, begun = helpers.branches(pair[1], views), []
    monkeypatch.setattr(mx, "async_eval", lambda *arrays: begun.extend(arrays))
    draft = helpers.draft(drafter, 4)
    *tokens, last = [array.tolist() for array in begun if array.dtype == mx.uint32]
    assert [*tokens, last] == [*([token] for token in draft.ids[:-1].tolist()), draft.ids.tolist()]


@helpers.both_samplings
def test_a_round_waits_only_where_it_reads_tokens(pair, views, sampling, monkeypatch):
    """Reading is a `tolist`; no other step of a round evaluates anything."""
    target = helpers.target(pair[0], views[0], sampling)
    drafter = helpers.branches(pair[1], views, sampling)
    helpers.rounds(target, drafter, 4)
    for name in ("eval", "synchronize"):
        monkeypatch.setattr(mx, name, lambda *_: pytest.fail("a round waits twice"))
    assert len(helpers.tokens(helpers.rounds(target, drafter, 24))) == 24


@pytest.mark.parametrize("tree", [None, Tree((3, 2, 2))], ids=["chain", "tree"])
def test_rounds_write_into_the_cache_and_never_copy_it(pair, views, tree):
    """With room for 30,000 columns, one layer's copy would double what a round needs."""
    target = helpers.target(pair[0], views[0])
    drafter = helpers.branches(pair[1], views, tree=tree)
    helpers.rounds(target, drafter, 10)
    columns, heads, width = 30_000, 4, 16
    for each in (target, drafter):
        each._cache.reserve(columns)
        each._cache.settle()
    layer = 2 * heads * columns * width * 4
    mx.reset_peak_memory()
    before = mx.get_active_memory()
    helpers.rounds(target, drafter, 30)
    assert mx.get_peak_memory() - before < layer
