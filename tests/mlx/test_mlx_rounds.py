"""What only MLX shows of a round, and its memory limits."""

import mlx.core as mx
import pytest

from mmspec.decoding.exact_rows import ExactRows
from mmspec.decoding.tree import Tree
from mmspec_mlx.backend import MlxBackend
from mmspec_mlx.device import devices
from mmspec_mlx.network.cache import Cache
from support import sequence_helpers as helpers


def test_each_drafted_token_is_begun_while_the_next_is_listed(pair, views, monkeypatch):
    drafter, begun = helpers.branches(pair[1], views), []
    monkeypatch.setattr(mx, "async_eval", lambda *arrays: begun.extend(arrays))
    draft = helpers.draft(drafter, 4)
    *tokens, last = [array.tolist() for array in begun if array.dtype == mx.uint32]
    assert [*tokens, last] == [*([token] for token in draft.ids[:-1].tolist()), draft.ids.tolist()]


@pytest.mark.parametrize("sampling", [helpers.GREEDY, helpers.DRAWN], ids=["greedy", "drawn"])
def test_a_round_waits_only_where_it_reads_tokens(pair, views, sampling, monkeypatch):
    """Reading is a `tolist`; no other step of a round evaluates anything."""
    target = helpers.target(pair[0], views[0], sampling)
    drafter = helpers.branches(pair[1], views, sampling)
    helpers.rounds(target, drafter, 4)
    for name in ("eval", "synchronize"):
        monkeypatch.setattr(mx, name, lambda *_: pytest.fail("a round waits twice"))
    assert len(helpers.tokens(helpers.rounds(target, drafter, 24))) == 24


@pytest.mark.parametrize(
    ("tree", "exact", "dtype"),
    [
        (None, None, "float32"),
        (Tree((3, 2, 2)), None, "float32"),
        (Tree((3, 2, 2)), ExactRows(1, 2), "float16"),
    ],
    ids=["chain", "tree", "tiles"],
)
def test_rounds_write_into_the_cache_and_never_copy_it(pair_paths, tree, exact, dtype):
    """With room for 30,000 columns, one layer's copy would double what a round needs."""
    pair = [MlxBackend().load(path, dtype=dtype) for path in pair_paths]
    views = helpers.views_of(pair[0])
    target = pair[0].open_target(helpers.GREEDY, exact)
    target.extend(views[0])
    drafter = helpers.branches(pair[1], views, tree=tree)
    helpers.rounds(target, drafter, 10)
    columns, heads, width = 30_000, 4, 16
    for each in (target, drafter):
        each._cache.reserve(columns)
        each._cache.settle()
    layer = 2 * heads * columns * width * 2
    mx.reset_peak_memory()
    before = mx.get_active_memory()
    helpers.rounds(target, drafter, 30)
    assert mx.get_peak_memory() - before < layer


def test_rows_of_a_cache_lie_as_attention_on_a_gpu_reads_them_without_a_copy():
    """A row begins where the heads of the one before it end."""
    cache, new = Cache(1, 3, 2, 4, mx.float32), mx.ones((3, 2, 5, 4))
    (layer,) = cache.layers(0, 5)
    for seen in layer.update(new, new):
        row, head, *_ = memoryview(seen).strides
        assert row == 2 * head


def test_a_gpu_holds_what_the_system_recommends_and_a_cpu_is_left_alone(monkeypatch):
    calls = {}
    monkeypatch.setattr(mx, "set_wired_limit", lambda size: calls.update(wired_limit_bytes=size))
    monkeypatch.setattr(mx, "set_cache_limit", lambda size: calls.update(cache_limit_bytes=size))
    monkeypatch.setattr(mx, "device_info", lambda _: {"max_recommended_working_set_size": 12_000})
    for metal in (False, True):
        monkeypatch.setattr(mx.metal, "is_available", lambda found=metal: found)
        devices.limit_memory()
        assert devices.describe_memory() == calls
    assert calls == {"wired_limit_bytes": 12_000, "cache_limit_bytes": devices.CACHE_BYTES}
    for device, described in ((mx.cpu, set()), (mx.gpu, calls.keys())):
        monkeypatch.setattr(mx, "default_device", lambda device=device: mx.Device(device))
        assert calls.keys() & MlxBackend().describe().keys() == described
