"""Buffers and captures are lent from one sequence to the next, and what none needs is freed."""

import gc
import weakref

import pytest
import torch

from mmspec.decoding.contract import Segment
from mmspec.decoding.sampling import Sampling
from mmspec_torch.backend import TorchBackend
from mmspec_torch.device import cuda_graphs
from mmspec_torch.device.cuda_graphs import TimedCapture
from mmspec_torch.graphs.replays import StaticCache, TargetReplays
from mmspec_torch.network.rotary import Rotary
from mmspec_torch.sequence.replayed import ROOM, ReplayedSequences
from support import sequence_helpers as helpers
from support.replayed import Recording


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
    free = pair[0].sequences.free
    assert list(free.values()) == [(TargetReplays, 1, False)]
    both = [helpers.target(pair[0], view) for view in views[:2]]
    assert not free
    assert both[0]._cache is not both[1]._cache


def test_sequences_that_ended_leave_few_columns_whatever_their_settings(pair, views, switch):
    switch(pair)
    for number in range(20):
        latest = Sampling(0.5 + number / 100)
        helpers.branches(pair[1], views[1:2], latest)
    drafts, targets = (model.sequences.free for model in (pair[1], pair[0]))
    assert len(drafts) == ROOM
    assert latest in [*drafts.values()][-1]
    for length, count in ((600, 1), (200, 1)):  # the latest stays, however many it has
        helpers.target(pair[0], Segment([[5] * length]))
        assert len(targets) == count


def test_a_model_that_is_dropped_is_freed_at_once(pair_paths):
    model = TorchBackend().load(pair_paths[1], device="cpu")
    model.sequences = ReplayedSequences(model.language, Recording())
    helpers.draft(helpers.branches(model, 2 * [helpers.TEXT]), 2)
    language = weakref.ref(model.language)
    gc.disable()
    del model
    rest = language()
    gc.enable()
    assert rest is None


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
    assert pair[1].sequences.free


def test_a_capture_that_lacks_memory_is_tried_again(pair):
    def full(compute):
        raise torch.OutOfMemoryError

    cache, capture = StaticCache(pair[0].language, 1, full), Recording()
    [found] = cache.run("sum", lambda: (torch.ones(2).sum(),))
    cache._capture = capture
    [again] = cache.run("sum", lambda: (torch.ones(2).sum(),))
    assert [found.item(), again.item(), capture.captured] == [2, 2, 1]


def test_the_wait_for_earlier_work_is_no_setup(monkeypatch):
    times = [0.0]
    wait = lambda _=None: times.append(times[-1] + 100)  # noqa: E731
    monkeypatch.setattr(torch.cuda, "synchronize", wait)
    monkeypatch.setattr(cuda_graphs, "perf_counter", lambda: times[-1])
    capture = TimedCapture(lambda _: times.append(times[-1] + 1), torch.device("cuda"))
    capture(tuple)
    assert capture.seconds == 1
