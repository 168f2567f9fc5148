"""Copies between host and device, as typed wrappers of MLX's calls."""

from collections.abc import Sequence
from typing import Any

import mlx.core as mx
import numpy as np
from numpy.typing import NDArray


def integers(array: mx.array) -> list[int]:
    """Copy an integer array [n] to the host.  Blocks."""
    return list(_values(array))


def floats(array: mx.array) -> list[float]:
    """Copy an array [n] to the host.  Blocks."""
    return list(_values(array))


def _values(array: mx.array) -> Any:
    return array.tolist()


def float32(array: mx.array) -> NDArray[np.float32]:
    """Copy an array to the host as float32.  Blocks."""
    return np.array(array.astype(mx.float32))


def raw(array: mx.array) -> bytes:
    """Copy an array's bytes to the host.  Blocks."""
    return np.array(mx.contiguous(array).view(mx.uint8)).tobytes()


def ids(tokens: Sequence[int]) -> mx.array:
    """Copy token ids [n] to the device."""
    return mx.array(list(tokens), dtype=mx.uint32)


def numbers(values: Sequence[float]) -> mx.array:
    """Copy floats [n] to the device."""
    return mx.array(list(values), dtype=mx.float32)


def start(*arrays: mx.array) -> None:
    """Start computing arrays on the device, without waiting for them."""
    begin: Any = mx.async_eval
    begin(*arrays)
