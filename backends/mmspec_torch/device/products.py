"""Products with a fixed matrix.

Shape letters: n rows, I inputs, O outputs.
"""

import timeit
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, partial

import torch
from torch import Tensor

WORTH_PACKING = 2**17
"""Number of elements from which oneDNN's layout makes a matrix faster with few rows."""
PACKED_ROWS = 8
"""Number of rows that oneDNN optimizes the layout for; products may have any number."""

SLOW = 2.0
"""Time of a 16-bit product, divided by float32's, above which several rows are widened."""
WIDENED_ROWS = 6
"""Fewest rows for which reading a matrix as float32 costs less than it gains."""
TILE = 2**20
"""Elements of a matrix that are widened at once, so that they stay in the cache."""


class Product(ABC):
    """A matrix [I, O] to multiply with."""

    @abstractmethod
    def __call__(self, x: Tensor) -> Tensor:
        """Return the product [n, O] of x [n, I]."""

    def add(self, x: Tensor, to: Tensor) -> Tensor:
        """Return the product of x [n, I] plus `to` [n, O], which may be overwritten."""
        return to.add_(self(x))


class Dense(Product):
    """A matrix in PyTorch's own layout."""

    def __init__(self, matrix: Tensor) -> None:
        self._matrix = matrix

    def __call__(self, x: Tensor) -> Tensor:
        """Return the product [n, O] of x [n, I]."""
        return torch.mm(x, self._matrix)

    def add(self, x: Tensor, to: Tensor) -> Tensor:
        """Add x [n, I] times this matrix [I, O] to `to` [n, O] in place."""
        return to.addmm_(x, self._matrix)


class OneDnnMatrix(Product):
    """A large float32 matrix in oneDNN's layout for CPUs: few rows take the time of one."""

    def __init__(self, weight: Tensor) -> None:
        # The operators to which torch.compile lowers a linear layer of frozen weights.
        onednn = torch.ops.mkldnn
        self._matrix = onednn._reorder_linear_weight(weight.contiguous(), PACKED_ROWS)  # noqa: SLF001
        self._multiply = onednn._linear_pointwise.default  # noqa: SLF001
        self._multiply_and_add = onednn._linear_pointwise.binary  # noqa: SLF001

    def __call__(self, x: Tensor) -> Tensor:
        """Return the product [n, O] of x [n, I]."""
        product: Tensor = self._multiply(x, self._matrix, None, "none", [], "")
        return product

    def add(self, x: Tensor, to: Tensor) -> Tensor:
        """Return the product of x [n, I] plus `to`."""
        total: Tensor = self._multiply_and_add(x, to, self._matrix, None, "add")
        return total


class WidenedMatrix(Product):
    """A 16-bit matrix on a CPU without units for its type: several rows multiply it in float32."""

    def __init__(self, weight: Tensor) -> None:
        self._dense = Dense(weight.T)
        self._tiles: Sequence[Tensor] = torch.split(weight, max(1, TILE // weight.shape[1]))

    def __call__(self, x: Tensor) -> Tensor:
        """Return the product [n, O] of x [n, I]."""
        return self._dense(x) if len(x) < WIDENED_ROWS else self._wide(x).to(x.dtype)

    def add(self, x: Tensor, to: Tensor) -> Tensor:
        """Add x [n, I] times this matrix [I, O] to `to` [n, O] in place."""
        return self._dense.add(x, to) if len(x) < WIDENED_ROWS else to.add_(self._wide(x))

    def _wide(self, x: Tensor) -> Tensor:
        rows = x.float()
        return torch.cat([torch.mm(rows, tile.float().T) for tile in self._tiles], dim=1)


@cache
def relative_time(dtype: torch.dtype) -> float:
    """Return the time of a product in `dtype` on this CPU, divided by float32's, measured once."""
    matrix = torch.ones(256, 256)
    in_dtype, in_float32 = (
        min(timeit.repeat(partial(torch.mm, factor, factor), number=2, repeat=5))
        for factor in (matrix.to(dtype), matrix)
    )
    return in_dtype / in_float32


@dataclass(frozen=True, slots=True)
class LinearLayer(Product):
    """A matrix with a bias [O]."""

    matrix: Product
    bias: Tensor

    def __call__(self, x: Tensor) -> Tensor:
        """The outputs [n, O] of the linear layer for x [n, I]."""
        return self.matrix(x).add_(self.bias)

    def add(self, x: Tensor, to: Tensor) -> Tensor:
        """Return the outputs for x [n, I] plus `to` [n, O], which may be overwritten."""
        return self.matrix.add(x, to).add_(self.bias)


def product(weight: Tensor) -> Product:
    """Return a weight [O, I] as a product, in the fastest layout for its device."""
    if weight.device.type != "cpu":
        return Dense(weight.T)
    if weight.dtype != torch.float32:
        return WidenedMatrix(weight) if relative_time(weight.dtype) > SLOW else Dense(weight.T)
    packs = torch.backends.mkldnn.is_available()  # type: ignore[no-untyped-call]
    if packs and weight.numel() >= WORTH_PACKING:
        return OneDnnMatrix(weight)
    return Dense(weight.T.contiguous())
