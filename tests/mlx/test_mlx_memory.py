"""Memory limits: what is asked of MLX where there is Metal, and nothing elsewhere."""

import mlx.core as mx
import pytest

from mmspec_mlx import memory


@pytest.fixture
def asked(monkeypatch):
    calls = {}
    monkeypatch.setattr(mx, "set_wired_limit", lambda size: calls.update(wired=size))
    monkeypatch.setattr(mx, "set_cache_limit", lambda size: calls.update(cache=size))
    monkeypatch.setattr(mx, "device_info", lambda: {"max_recommended_working_set_size": 12_000})
    return calls


def test_a_gpu_holds_what_the_system_recommends(asked, monkeypatch):
    monkeypatch.setattr(mx.metal, "is_available", lambda: True)
    memory.limit()
    assert asked == {"wired": 12_000, "cache": memory.CACHE_BYTES}
    assert memory.describe() == {
        "wired_limit_bytes": 12_000,
        "cache_limit_bytes": memory.CACHE_BYTES,
    }


def test_a_cpu_is_left_alone(asked, monkeypatch):
    monkeypatch.setattr(mx.metal, "is_available", lambda: False)
    memory.limit()
    assert asked == {}
    assert memory.describe() == {}
