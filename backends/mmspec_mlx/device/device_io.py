"""Copies of numbers between host and device, as typed wrappers of MLX's calls."""

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

import mlx.core as mx
import numpy as np

from mmspec.decoding.contract import Float32


def read(*parts: mx.array) -> Iterator[list[float]]:
    """Copy vectors to the host in one transfer, as float32: exact for ids below 2**24.  Blocks."""
    joined: Any = mx.concatenate([part.astype(mx.float32) for part in parts])
    numbers = iter(joined.tolist())
    return (list(islice(numbers, part.shape[0])) for part in parts)


def to_host(array: mx.array) -> Float32:
    """Copy an array to the host as float32.  Blocks."""
    return np.array(array.astype(mx.float32))


def integers(values: Sequence[int]) -> mx.array:
    """Copy signed integers [n] to the device."""
    return mx.array(list(values), dtype=mx.int32)


def floats(values: Sequence[Any]) -> mx.array:
    """Copy floats, or rows of them, to the device."""
    return mx.array(list(values), dtype=mx.float32)


def start(*arrays: mx.array) -> None:
    """Start computing arrays on the device, without waiting for them."""
    begin: Any = mx.async_eval
    begin(*arrays)
