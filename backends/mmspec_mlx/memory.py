"""How much memory MLX may keep on a GPU that shares it with everything else."""

from typing import Any

import mlx.core as mx

CACHE_BYTES = 2**30
"""Freed buffers kept for the next ones; without a limit a long prompt's stay for good."""


def limit() -> None:
    """Keep weights and caches of keys from being paged out, and freed buffers from piling up.

    A CPU's memory is left as MLX has it.
    """
    if mx.metal.is_available():
        mx.set_wired_limit(_wired())
        mx.set_cache_limit(CACHE_BYTES)


def describe() -> dict[str, int]:
    """The limits, in bytes, where there are any."""
    if not mx.metal.is_available():
        return {}
    return {"wired_limit_bytes": _wired(), "cache_limit_bytes": CACHE_BYTES}


def _wired() -> int:
    """What the system recommends that one program holds at once."""
    told: dict[str, Any] = dict(mx.device_info())
    return int(told["max_recommended_working_set_size"])
