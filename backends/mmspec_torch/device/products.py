"""Products with a fixed matrix.

Shape letters: n rows, I inputs, O outputs.
"""

import timeit
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, partial

import torch
import torch.nn.functional as F
from torch import Tensor

WORTH_PACKING = 2**17
"""Number of elements from which oneDNN's layout makes a matrix faster with few rows."""
WORTH_PADDING = 2**19
"""Number of elements from which a matrix is read from memory; smaller ones stay in the cache."""
ROWS = 4
"""Rows to which fewer are padded there: oneDNN reads memory 1.2 to 1.6 times as fast for four."""

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
    """A large matrix in oneDNN's layout for CPUs: few rows take the time of one."""

    def __init__(self, weight: Tensor) -> None:
        # The operators to which torch.compile lowers a linear layer of frozen weights.
        onednn = torch.ops.mkldnn
        self._least_rows = ROWS if weight.numel() >= WORTH_PADDING else 1
        self._matrix = onednn._reorder_linear_weight(weight.contiguous(), ROWS)  # noqa: SLF001
        self._multiply = onednn._linear_pointwise.default  # noqa: SLF001
        self._multiply_and_add = onednn._linear_pointwise.binary  # noqa: SLF001

    def __call__(self, x: Tensor) -> Tensor:
        """Return the product [n, O] of x [n, I]."""
        if (rows := len(x)) < self._least_rows:
            return self(F.pad(x, (0, 0, 0, ROWS - rows)))[:rows]
        product: Tensor = self._multiply(x, self._matrix, None, "none", [], "")
        return product

    def add(self, x: Tensor, to: Tensor) -> Tensor:
        """Return the product of x [n, I] plus `to`, which may be overwritten."""
        if len(x) < self._least_rows:
            return super().add(x, to)
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
    if weight.dtype != torch.float32 and relative_time(weight.dtype) > SLOW:
        return WidenedMatrix(weight)
    if weight.numel() >= WORTH_PACKING and _packs(weight.dtype):
        return OneDnnMatrix(weight)
    return Dense(weight.T.contiguous() if weight.dtype == torch.float32 else weight.T)


def _packs(dtype: torch.dtype) -> bool:
    """Whether oneDNN has a layout of its own for matrices of a type on this CPU."""
    has_onednn: bool = torch.backends.mkldnn.is_available()  # type: ignore[no-untyped-call]
    if dtype == torch.bfloat16:
        return has_onednn and torch.ops.mkldnn._is_mkldnn_bf16_supported()  # noqa: SLF001
    return has_onednn and dtype == torch.float32
