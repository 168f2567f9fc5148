"""Memory limits: what is asked of MLX where there is Metal, and nothing elsewhere."""

import mlx.core as mx

from mmspec_mlx.device import devices


def test_a_gpu_holds_what_the_system_recommends_and_a_cpu_is_left_alone(monkeypatch):
    calls = {}
    monkeypatch.setattr(mx, "set_wired_limit", lambda size: calls.update(wired_limit_bytes=size))
    monkeypatch.setattr(mx, "set_cache_limit", lambda size: calls.update(cache_limit_bytes=size))
    monkeypatch.setattr(mx, "device_info", lambda: {"max_recommended_working_set_size": 12_000})
    for metal in (False, True):
        monkeypatch.setattr(mx.metal, "is_available", lambda found=metal: found)
        devices.limit_memory()
        assert devices.describe_memory() == calls
    assert calls == {"wired_limit_bytes": 12_000, "cache_limit_bytes": devices.CACHE_BYTES}
