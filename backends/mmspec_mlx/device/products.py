"""Products with a fixed matrix, in the layout that is fastest on its device."""

from dataclasses import dataclass

import mlx.core as mx

from mmspec_mlx.device.devices import on_gpu
from mmspec_mlx.device.quantized import Packed

LARGEST_COPIED = 2**20
"""Number of elements of the largest matrix that is copied into the order a CPU's BLAS prefers."""


@dataclass(frozen=True, slots=True)
class Plain:
    """A float matrix [out, in], transposed to [in, out] as a view or a copy."""

    transposed: mx.array

    def __call__(self, x: mx.array) -> mx.array:
        """The product [..., out] of x [..., in] and the matrix."""
        return x @ self.transposed

    def rows(self, index: mx.array) -> mx.array:
        """Return the matrix's rows [..., in] with the numbers `index` [...]."""
        return self.transposed.T[index]

    @property
    def arrays(self) -> list[mx.array]:
        """All tensors of the matrix."""
        return [self.transposed]


Matrix = Plain | Packed


@dataclass(frozen=True, slots=True)
class Biased:
    """A matrix and a bias."""

    matrix: Matrix
    bias: mx.array

    def __call__(self, x: mx.array) -> mx.array:
        """Map x [..., in] to [..., out]."""
        return self.matrix(x) + self.bias

    @property
    def arrays(self) -> list[mx.array]:
        """All tensors of the module."""
        return [*self.matrix.arrays, self.bias]


def plain(weight: mx.array) -> Plain:
    """Store a float weight [out, in]; a small one is copied into the order a CPU's BLAS prefers."""
    is_small = weight.dtype == mx.float32 and weight.size <= LARGEST_COPIED
    return Plain(mx.contiguous(weight.T) if is_small and not on_gpu() else weight.T)
