"""Copies of numbers between host and device, as typed wrappers of MLX's calls."""

from typing import Any

import mlx.core as mx
import numpy as np

from mmspec.decoding.contract import Float32


def to_host(array: mx.array) -> Float32:
    """Copy an array to the host as float32.  Blocks."""
    return np.array(array.astype(mx.float32))


def start(*arrays: mx.array) -> None:
    """Start computing arrays on the device, without waiting for them."""
    begin: Any = mx.async_eval
    begin(*arrays)
