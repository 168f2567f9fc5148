"""MLX devices, dtypes and memory limits."""

from typing import Any

import mlx.core as mx

from mmspec.checkpoints.loading_plan import TensorSource
from mmspec.ground.errors import choice

_DTYPES = {"float32": mx.float32, "bfloat16": mx.bfloat16, "float16": mx.float16}
_DTYPE_NAMES = {"F32": "float32", "BF16": "bfloat16", "F16": "float16"}
CACHE_BYTES = 2**30
"""The most bytes of freed buffers that MLX keeps for reuse; by default it keeps all of them."""


def limit_memory() -> None:
    """On a GPU, keep weights and caches from being paged out, and limit freed buffers."""
    if mx.metal.is_available():
        mx.set_wired_limit(_memory_bytes())
        mx.set_cache_limit(CACHE_BYTES)


def describe_memory() -> dict[str, int]:
    """Return the memory limits of a GPU in bytes; empty without Metal."""
    if not mx.metal.is_available():
        return {}
    return {"wired_limit_bytes": _memory_bytes(), "cache_limit_bytes": CACHE_BYTES}


def _memory_bytes() -> int:
    """The GPU memory in bytes that the system recommends for one program."""
    information: dict[str, Any] = dict(mx.device_info(mx.Device(mx.gpu)))
    return int(information["max_recommended_working_set_size"])


def devices() -> list[str]:
    """Return the devices that models can run on, fastest first."""
    return ["gpu", "cpu"] if mx.is_available(mx.Device(mx.gpu)) else ["cpu"]


def find_device(name: str) -> str:
    """Return `name` if it is a device, or the fastest device for 'auto'.  Raises UsageError."""
    if name == "auto":
        return devices()[0]
    if name not in devices():
        raise choice("MLX device", name, ["auto", *devices()])
    return name


def find_dtype(name: str, device: str, sources: dict[str, TensorSource]) -> mx.Dtype:
    """Return the dtype called `name`; 'auto' is float32 on a CPU, else the checkpoint's."""
    if name == "auto":
        norm = sources["language_model.norm.weight"]  # which is never quantized
        name = "float32" if device == "cpu" else _DTYPE_NAMES[norm.tensor.dtype]
    if name not in _DTYPES:
        raise choice("dtype", name, ["auto", *_DTYPES])
    return _DTYPES[name]
