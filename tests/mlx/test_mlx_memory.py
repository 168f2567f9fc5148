"""Memory limits: what is asked of MLX where there is Metal, and nothing elsewhere."""

import mlx.core as mx
import pytest

from mmspec_mlx.device import devices


@pytest.fixture
def asked(monkeypatch):
    calls = {}
    monkeypatch.setattr(mx, "set_wired_limit", lambda size: calls.update(wired=size))
    monkeypatch.setattr(mx, "set_cache_limit", lambda size: calls.update(cache=size))
    monkeypatch.setattr(mx, "device_info", lambda: {"max_recommended_working_set_size": 12_000})
    return calls


def test_a_gpu_holds_what_the_system_recommends(asked, monkeypatch):
    monkeypatch.setattr(mx.metal, "is_available", lambda: True)
    devices.limit_memory()
    assert asked == {"wired": 12_000, "cache": devices.CACHE_BYTES}
    assert devices.describe_memory() == {
        "wired_limit_bytes": 12_000,
        "cache_limit_bytes": devices.CACHE_BYTES,
    }


def test_a_cpu_is_left_alone(asked, monkeypatch):
    monkeypatch.setattr(mx.metal, "is_available", lambda: False)
    devices.limit_memory()
    assert asked == {}
    assert devices.describe_memory() == {}
