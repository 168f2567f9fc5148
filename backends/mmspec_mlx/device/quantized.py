"""Matrices in MLX's affine quantization."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import mlx.core as mx


@dataclass(frozen=True, slots=True)
class Packed:
    """A quantized matrix [out, in], multiplied without unpacking it."""

    weight: mx.array
    scales: mx.array
    biases: mx.array
    bits: int
    group_size: int

    def __call__(self, x: mx.array) -> mx.array:
        """The product [..., out] of x [..., in] and the matrix."""
        return mx.quantized_matmul(
            x,
            self.weight,
            scales=self.scales,
            biases=self.biases,
            transpose=True,
            group_size=self.group_size,
            bits=self.bits,
        )

    def rows(self, index: mx.array) -> mx.array:
        """Return the dequantized rows [..., in] with the numbers `index` [...]."""
        weight, scales, biases = self.weight[index], self.scales[index], self.biases[index]
        return unpacked(Packed(weight, scales, biases, self.bits, self.group_size))

    @property
    def arrays(self) -> list[mx.array]:
        """All tensors of the matrix."""
        return [self.weight, self.scales, self.biases]


@dataclass(frozen=True, slots=True)
class Joined:
    """Matrices [out, in] of the same inputs that are stored in different ways."""

    parts: Sequence[Callable[[mx.array], mx.array]]

    def __call__(self, x: mx.array) -> mx.array:
        """The products [..., out] of x [..., in] and the matrices, side by side."""
        return mx.concatenate([part(x) for part in self.parts], axis=-1)

    @property
    def arrays(self) -> list[mx.array]:
        """None: each part has its own."""
        return []


def unpacked(part: mx.array | Packed) -> mx.array:
    """Return the float matrix [out, in] of a plain or packed one."""
    if isinstance(part, mx.array):
        return part
    bits, group_size = part.bits, part.group_size
    return mx.dequantize(part.weight, part.scales, part.biases, group_size=group_size, bits=bits)
