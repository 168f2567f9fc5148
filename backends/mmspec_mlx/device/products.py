"""Products with a fixed matrix, in the layout that is fastest on its device."""

from collections.abc import Sequence
from dataclasses import dataclass

import mlx.core as mx

from mmspec_mlx.device.quantized import QuantizedMatrix

FEW = 8
"""The most rows for which a matrix is multiplied in blocks."""
SMALL = 10**6
"""Number of multiplications below which OpenBLAS does not pack a product's operands."""
LARGEST_IN_CACHE = 2**19
"""Number of elements of the largest matrix that is copied: a larger one is read from memory."""
LARGEST_IN_BLOCKS = 2**20
"""Number of elements of the largest matrix that is stored twice, whole and in blocks."""


@dataclass(frozen=True, slots=True)
class Plain:
    """A float matrix [out, in]."""

    transpose: mx.array
    """[in, out], a view or a copy of it."""

    def __call__(self, x: mx.array) -> mx.array:
        """The product [..., out] of x [..., in] and the matrix."""
        return x @ self.transpose

    def rows(self, index: mx.array) -> mx.array:
        """Return the matrix's rows [..., in] with the numbers `index` [...]."""
        return self.transpose.T[index]

    @property
    def arrays(self) -> list[mx.array]:
        """All tensors of the matrix."""
        return [self.transpose]


@dataclass(frozen=True, slots=True)
class ColumnBlocks(Plain):
    """A float matrix stored whole and in column blocks, which are fast with few rows."""

    blocks: mx.array
    """[B, in, out / B] the matrix in B column blocks."""

    def __call__(self, x: mx.array) -> mx.array:
        """The product [..., out] of x [..., in] and the matrix."""
        rows = x.size // x.shape[-1]
        if not 1 < rows <= FEW:
            return Plain.__call__(self, x)
        parts = x.reshape(rows, -1) @ self.blocks
        return parts.swapaxes(0, 1).reshape(*x.shape[:-1], -1)

    @property
    def arrays(self) -> list[mx.array]:
        """All tensors of the matrix."""
        return [self.transpose, self.blocks]


@dataclass(frozen=True, slots=True)
class MatrixGroup:
    """Matrices [out, in] of the same inputs that are stored in different ways."""

    parts: Sequence[Plain | QuantizedMatrix]

    def __call__(self, x: mx.array) -> mx.array:
        """The products [..., out] of x [..., in] and the matrices, side by side."""
        return mx.concatenate([part(x) for part in self.parts], axis=-1)

    @property
    def arrays(self) -> list[mx.array]:
        """All tensors of the matrices."""
        return [array for part in self.parts for array in part.arrays]


Matrix = Plain | QuantizedMatrix | MatrixGroup


@dataclass(frozen=True, slots=True)
class LinearLayer:
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
    """Store a float weight [out, in]; in a cache, a CPU's BLAS prefers the order [in, out]."""
    return Plain(mx.contiguous(weight.T) if _is_small(weight, LARGEST_IN_CACHE) else weight.T)


def for_few_rows(matrix: Matrix) -> Matrix:
    """Return the matrix with additional blocks, if that is faster on a CPU."""
    if not isinstance(matrix, Plain) or not _is_small(matrix.transpose, LARGEST_IN_BLOCKS):
        return matrix
    width, out = matrix.transpose.shape
    largest = SMALL // (FEW * width)
    counts = (n for n in range(1, out + 1) if out % n == 0 and out // n <= largest)
    count = next(counts, 1)
    parts = matrix.transpose.reshape(width, count, out // count).swapaxes(0, 1)
    return ColumnBlocks(matrix.transpose, mx.contiguous(parts)) if count > 1 else matrix


def _is_small(matrix: mx.array, most: int) -> bool:
    on_cpu = mx.default_device() == mx.Device(mx.cpu)
    return on_cpu and matrix.dtype == mx.float32 and matrix.size <= most
