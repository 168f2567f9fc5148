"""Products with a fixed matrix, in the layouts that its device multiplies fastest."""

from dataclasses import dataclass
from typing import TypeGuard

import mlx.core as mx

from mmspec_mlx import blas

FEW = 25
"""Rows that a block is small for: a tree of 24 nodes and the token before it."""
SMALL = 10**6
"""Multiplications in a product that OpenBLAS calls small."""
SMALL_RESULT = 1200
"""Elements of a result up to which it also calls a product with a transposed factor small."""
LARGEST_IN_BLOCKS = 2**20
"""Elements of the largest matrix to hold twice."""
MOST_SHARED = 6
"""Vectors that are worth multiplying a few at a time: more take too many calls."""
NARROWEST = 32
"""Columns below which a block costs more to call for than it saves."""


@dataclass(frozen=True, slots=True)
class Plain:
    """A float matrix, kept as [in, out]: a view of what the file holds, or a copy."""

    transposed: mx.array

    def __call__(self, x: mx.array) -> mx.array:
        """Multiply x [..., in] to [..., out]."""
        return x @ self.transposed

    def rows(self, index: mx.array) -> mx.array:
        """Look rows up: index [...] gives [..., in]."""
        return self.transposed.T[index]

    @property
    def arrays(self) -> list[mx.array]:
        """The tensors it consists of."""
        return [self.transposed]


@dataclass(frozen=True, slots=True)
class Blocked:
    """A float matrix held twice: whole, and as blocks of its columns, each small for few rows."""

    whole: Plain
    blocks: mx.array
    """[B, in, out / B]"""

    def __call__(self, x: mx.array) -> mx.array:
        """Multiply x [..., in] to [..., out]."""
        rows, (count, width, columns) = x.size // x.shape[-1], self.blocks.shape
        if not rows * width * columns <= SMALL < rows * width * columns * count:
            return self.whole(x)
        parts = x.reshape(rows, -1) @ self.blocks
        return parts.swapaxes(0, 1).reshape(*x.shape[:-1], -1)

    def rows(self, index: mx.array) -> mx.array:
        """Look rows up: index [...] gives [..., in]."""
        return self.whole.rows(index)

    @property
    def arrays(self) -> list[mx.array]:
        """The tensors it consists of."""
        return [*self.whole.arrays, self.blocks]


@dataclass(frozen=True, slots=True)
class Packed:
    """A matrix in MLX's affine quantization, never unpacked as a whole."""

    weight: mx.array
    scales: mx.array
    biases: mx.array
    bits: int
    group_size: int

    def __call__(self, x: mx.array) -> mx.array:
        """Multiply x [..., in] to [..., out]."""
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
        """Look rows up and unpack those alone: index [...] gives [..., in]."""
        weight, scales, biases = self.weight[index], self.scales[index], self.biases[index]
        return unpacked(Packed(weight, scales, biases, self.bits, self.group_size))

    @property
    def arrays(self) -> list[mx.array]:
        """The tensors it consists of."""
        return [self.weight, self.scales, self.biases]


Matrix = Plain | Blocked | Packed


def plain(weight: mx.array) -> Plain:
    """Lay a float weight [out, in] out: a CPU's BLAS reads few rows' factors as they lie."""
    cpu = mx.default_device() == mx.Device(mx.cpu)
    return Plain(mx.contiguous(weight.T) if cpu else weight.T)


def for_few_rows(matrix: Matrix) -> Matrix:
    """Hold a matrix in blocks too, where a few rows are multiplied faster that way."""
    if not _may_be_blocked(matrix):
        return matrix
    width, out = matrix.transposed.shape
    count = _blocks(width, out)
    parts = matrix.transposed.reshape(width, count, out // count).swapaxes(0, 1)
    return Blocked(matrix, mx.contiguous(parts)) if count > 1 else matrix


def _may_be_blocked(matrix: Matrix) -> TypeGuard[Plain]:
    return (
        isinstance(matrix, Plain)
        and mx.default_device() == mx.Device(mx.cpu)
        and matrix.transposed.dtype == mx.float32
        and matrix.transposed.size <= LARGEST_IN_BLOCKS
        and blas.multiplies_small_as_they_lie()
    )


def each_with_each(x: mx.array, others: mx.array) -> mx.array:
    """The scalar products [..., m, n] of vectors x [..., m, in] and others [..., n, in]."""
    count, columns = x.shape[-2], others.shape[-2]
    if count == 1:  # BLAS is twice as fast at a matrix times a vector this way round
        return (others @ x.swapaxes(-1, -2)).swapaxes(-1, -2)
    transposed, share = others.swapaxes(-1, -2), _share(count, columns)
    if share == count:
        return x @ transposed
    shares = x.reshape(*x.shape[:-2], count // share, share, x.shape[-1])
    return (shares @ mx.expand_dims(transposed, -3)).reshape(*x.shape[:-1], columns)


def _share(count: int, columns: int) -> int:
    """How many of `count` vectors to multiply at once with `columns` others; one alone of two."""
    small = count * columns <= SMALL_RESULT
    if small or count > MOST_SHARED or not blas.multiplies_small_as_they_lie():
        return count
    shares = (n for n in range(count // 2, 0, -1) if count % n == 0 and (n > 1 or count == 2))
    return next((n for n in shares if n * columns <= SMALL_RESULT), count)


def _blocks(width: int, out: int) -> int:
    """Blocks to cut [width, out] into for FEW rows; 1 where that makes no sense."""
    largest = SMALL // (FEW * width)
    counts = (n for n in range(1, out // NARROWEST + 1) if out % n == 0 and out // n <= largest)
    return next(counts, 1)


def unpacked(part: mx.array | Packed) -> mx.array:
    """The float matrix [out, in] that a part stands for."""
    if isinstance(part, mx.array):
        return part
    bits, group_size = part.bits, part.group_size
    return mx.dequantize(part.weight, part.scales, part.biases, group_size=group_size, bits=bits)
