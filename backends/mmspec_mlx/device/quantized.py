"""Matrices in MLX's affine quantization."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import mlx.core as mx


@dataclass(frozen=True, slots=True)
class QuantizedMatrix:
    """A quantized matrix [out, in], multiplied without unpacking it."""

    arrays: Sequence[mx.array]
    """Weight, scales and biases."""
    bits: int
    group_size: int

    def __call__(self, x: mx.array) -> mx.array:
        """The product [..., out] of x [..., in] and the matrix."""
        weight, scales, biases = self.arrays
        return mx.quantized_matmul(x, weight, scales, biases, True, self.group_size, self.bits)

    def rows(self, index: mx.array) -> mx.array:
        """Return the dequantized rows [..., in] with the numbers `index` [...]."""
        return dequantize(replace(self, arrays=[array[index] for array in self.arrays]))


def dequantize(part: mx.array | QuantizedMatrix) -> mx.array:
    """Return the float matrix [out, in] of a plain or packed one."""
    if isinstance(part, mx.array):
        return part
    weight, scales, biases = part.arrays
    return mx.dequantize(weight, scales, biases, part.group_size, part.bits)
