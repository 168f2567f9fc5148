"""Products with a fixed matrix.

Shape letters: n rows, I inputs, O outputs.
"""

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

WORTH_PACKING = 2**17
"""Number of elements from which oneDNN's layout makes a matrix faster with few rows."""
PACKED_ROWS = 8
"""Number of rows that oneDNN optimizes the layout for; products may have any number."""


class Product(Protocol):
    """A matrix [I, O] to multiply with."""

    def __call__(self, x: Tensor) -> Tensor:
        """Return the product [n, O] of x [n, I]."""

    def added(self, x: Tensor, to: Tensor) -> Tensor:
        """Return the product of x [n, I] plus `to` [n, O], which may be overwritten."""


class Dense:
    """A matrix in PyTorch's own layout."""

    def __init__(self, matrix: Tensor) -> None:
        self._matrix = matrix

    def __call__(self, x: Tensor) -> Tensor:
        """Return the product [n, O] of x [n, I]."""
        return torch.mm(x, self._matrix)

    def added(self, x: Tensor, to: Tensor) -> Tensor:
        """Add the product of x [n, I] to `to` in place."""
        return to.addmm_(x, self._matrix)


class Packed:
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

    def added(self, x: Tensor, to: Tensor) -> Tensor:
        """Return the product of x [n, I] plus `to`."""
        total: Tensor = self._multiply_and_add(x, to, self._matrix, None, "add")
        return total


@dataclass(frozen=True, slots=True)
class Biased:
    """A matrix with a bias [O]; implements `Product`."""

    matrix: Product
    bias: Tensor

    def __call__(self, x: Tensor) -> Tensor:
        """The outputs [n, O] of the linear layer for x [n, I]."""
        return self.matrix(x).add_(self.bias)

    def added(self, x: Tensor, to: Tensor) -> Tensor:
        """Return the outputs for x [n, I] plus `to` [n, O], which may be overwritten."""
        return self.matrix.added(x, to).add_(self.bias)


def product(weight: Tensor) -> Product:
    """Return a weight [O, I] as a product, in the fastest layout for its device."""
    if weight.device.type != "cpu" or weight.dtype != torch.float32:
        return Dense(weight.T)
    packs = torch.backends.mkldnn.is_available()  # type: ignore[no-untyped-call]
    if packs and weight.numel() >= WORTH_PACKING:
        return Packed(weight)
    return Dense(weight.T.contiguous())
