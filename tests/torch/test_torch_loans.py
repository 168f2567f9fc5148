"""Buffers and captures are lent from one sequence to the next, and what none needs is freed."""

import gc

import pytest
import torch

from mmspec_torch.graphs.replays import StaticCache, TargetReplays
from mmspec_torch.network.rotary import Rotary
from support import sequence_helpers as helpers


def test_the_next_sequence_is_lent_what_the_last_has_captured(
    pair, views, switch, capture, monkeypatch
):
    monkeypatch.setattr(StaticCache, "step", 512)  # none outgrows it
    switch(pair)

    def said():
        target, drafter = helpers.target(pair[0], views[0]), helpers.branches(pair[1], views[:2])
        return helpers.tokens(helpers.rounds(target, drafter, 20))

    expected = said()
    gc.collect()
    before = capture.captured
    assert before
    assert said() == expected
    gc.collect()
    assert capture.captured == before
    free = pair[0].sequences.free[TargetReplays, 1, False]
    assert len(free) == 1
    both = [helpers.target(pair[0], view) for view in views[:2]]
    assert not free
    assert both[0]._cache is not both[1]._cache


def test_a_cache_that_could_not_grow_grows_at_the_next_try(pair, capture, monkeypatch):
    cache = StaticCache(pair[0].language, 2, capture)
    with monkeypatch.context() as patch:
        patch.delattr(Rotary, "run")
        with pytest.raises(AttributeError):
            cache.reach(9)
    cache.reach(9)
    assert len(cache.numbers) == cache.shade.shape[-1] == len(cache._cos) == cache.columns


def refused(compute):
    raise RuntimeError("operation not permitted when stream is capturing\nmore")


def test_where_nothing_can_be_captured_rounds_go_on_with_a_word(pair):
    cache, found = StaticCache(pair[0].language, 1, refused), []
    with pytest.warns(UserWarning, match=r"kernel by kernel and slower: .*capturing$"):
        found += cache.run("sum", lambda: (torch.ones(2).sum(),))
    found += cache.run("sum", lambda: (torch.ones(3).sum(),))
    assert [each.item() for each in found] == [2, 3]


def test_a_sequence_whose_rounds_are_not_captured_ends_too(pair, views, switch):
    switch(pair, refused)
    drafter = helpers.branches(pair[1], views[1:2])
    with pytest.warns(UserWarning, match="no graph"):
        helpers.draft(drafter, 2)
    del drafter
    gc.collect()
    assert any(pair[1].sequences.free.values())


def test_a_capture_that_lacks_memory_is_tried_again(pair):
    def full(compute):
        raise torch.OutOfMemoryError

    cache = StaticCache(pair[0].language, 1, full)
    for _ in range(2):
        with pytest.raises(torch.OutOfMemoryError):
            cache.run("sum", lambda: ())
