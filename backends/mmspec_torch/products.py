"""Products with a fixed matrix, in the layouts that its device multiplies fastest.

Shape letters: n rows, I inputs, O outputs.
"""

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

PACKED_ROWS = 6
"""Rows that oneDNN lays a matrix out for, a verification of five; it multiplies any number."""
WORTH_PACKING = 2**19
"""Multiplications from which the packed layout wins back its dearer call."""
WORTH_SHARING = 2**18
"""Elements beyond which one row is worth the waking of other threads."""
MOST_VECTORS = 16
"""Rows up to which a matrix is multiplied with each as a vector, however small it is."""
LARGEST_COPIED = 2**22
"""Elements up to which a matrix is held in several layouts; beyond, memory is the cost."""


class Product(Protocol):
    """A matrix [I, O] to multiply with."""

    @property
    def vectors(self) -> int:
        """The most rows that may also come as vectors, x [n, 1, I], which spares views of them."""
        ...

    def __call__(self, x: Tensor) -> Tensor:
        """Multiply x [n, I] with it."""
        ...

    def added(self, x: Tensor, to: Tensor) -> Tensor:
        """Return the product of x [n, I] plus `to` [n, O], which may be overwritten."""
        ...


class Dense:
    """One plain layout, on every device."""

    vectors = 0

    def __init__(self, matrix: Tensor) -> None:
        """Keep a matrix [I, O]."""
        self._matrix = matrix

    def __call__(self, x: Tensor) -> Tensor:
        """Multiply x [n, I]."""
        return torch.mm(x, self._matrix)

    def added(self, x: Tensor, to: Tensor) -> Tensor:
        """Add the product of x [n, I] to `to` in place."""
        return to.addmm_(x, self._matrix)


class Shared(Dense):
    """A float32 matrix on a CPU whose outputs threads share for one row as well.

    MKL leaves a vector to one thread, and that reads at a part of the memory's speed.
    """

    def __init__(self, matrix: Tensor) -> None:
        """Keep a matrix [I, O], and see it in a block [I, O / threads] for each."""
        super().__init__(matrix)
        threads, outputs = torch.get_num_threads(), matrix.shape[1]
        self._count = next(n for n in range(threads, 0, -1) if outputs % n == 0)
        self._blocks = torch.unflatten(matrix, 1, (self._count, -1)).transpose(0, 1)

    def __call__(self, x: Tensor) -> Tensor:
        """Multiply x [n, I]."""
        if x.shape[0] != 1:
            return super().__call__(x)
        return torch.bmm(x.expand(self._count, 1, -1), self._blocks).view(1, -1)

    def added(self, x: Tensor, to: Tensor) -> Tensor:
        """Add the product of x [n, I] to `to` in place."""
        if x.shape[0] != 1:
            return super().added(x, to)
        each = to.view(self._count, 1, -1)
        return each.baddbmm_(x.expand(self._count, 1, -1), self._blocks).view(1, -1)


class Copied:
    """A small float32 matrix on a CPU, in the layouts for few rows and for more.

    Few rows are multiplied as vectors, with the matrix once for each: faster than all at once.
    """

    def __init__(self, weight: Tensor) -> None:
        """Lay out a weight [O, I]."""
        # The operators to which torch.compile lowers a linear layer of frozen weights.
        onednn = torch.ops.mkldnn
        matrix = weight.T.contiguous()
        self.vectors = min(WORTH_PACKING // weight.numel(), MOST_VECTORS)
        self._each = [matrix.expand(n, -1, -1) for n in range(self.vectors + 1)]
        self._one = _plain(matrix)
        self._packed = onednn._reorder_linear_weight(weight, PACKED_ROWS)  # noqa: SLF001
        self._multiply = onednn._linear_pointwise.default  # noqa: SLF001
        self._multiply_and_add = onednn._linear_pointwise.binary  # noqa: SLF001

    def __call__(self, x: Tensor) -> Tensor:
        """Multiply x [n, I]."""
        if x.dim() == 3:
            return torch.bmm(x, self._each[x.shape[0]])
        if x.shape[0] == 1:
            return self._one(x)
        if x.shape[0] <= self.vectors:
            return self(x.unsqueeze(1)).squeeze(1)
        product: Tensor = self._multiply(x, self._packed, None, "none", [], "")
        return product

    def added(self, x: Tensor, to: Tensor) -> Tensor:
        """Return the product of x [n, I] plus `to`."""
        if x.dim() == 3:
            return to.baddbmm_(x, self._each[x.shape[0]])
        if x.shape[0] == 1:
            return self._one.added(x, to)
        if x.shape[0] <= self.vectors:
            return self.added(x.unsqueeze(1), to.unsqueeze(1)).squeeze(1)
        total: Tensor = self._multiply_and_add(x, to, self._packed, None, "add")
        return total


@dataclass(frozen=True, slots=True)
class Biased:
    """A product and a bias [O] to add; itself a `Product`."""

    matrix: Product
    bias: Tensor

    @property
    def vectors(self) -> int:
        """What the matrix takes."""
        return self.matrix.vectors

    def __call__(self, x: Tensor) -> Tensor:
        """Map x [n, I] to [n, O]."""
        return self.matrix(x).add_(self.bias)

    def added(self, x: Tensor, to: Tensor) -> Tensor:
        """Return the map of x [n, I] plus `to` [n, O], which may be overwritten."""
        return self.matrix.added(x, to).add_(self.bias)


def product(weight: Tensor) -> Product:
    """Choose the layouts for a weight [O, I]."""
    packs = torch.backends.mkldnn.is_available()  # type: ignore[no-untyped-call]
    if _is_plain(weight) and packs and weight.numel() <= LARGEST_COPIED:
        return Copied(weight.contiguous())
    return _plain(weight.T)


def _plain(matrix: Tensor) -> Product:
    """Choose how to multiply with a matrix [I, O] as it lies."""
    leaves_one = torch.backends.mkl.is_available()  # type: ignore[no-untyped-call]
    shares = leaves_one and _is_plain(matrix) and matrix.numel() > WORTH_SHARING
    return Shared(matrix) if shares else Dense(matrix)


def _is_plain(matrix: Tensor) -> bool:
    return matrix.device.type == "cpu" and matrix.dtype == torch.float32
