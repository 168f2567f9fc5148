"""Random weights of any size, made from a few million draws and a seed."""

from collections.abc import Iterator
from math import prod
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from mmspec.manifest import Shape

DRAWS = 16_777_213
"""Normal draws that all tensors share: a prime, so that the rows of no matrix repeat."""
SMALL = 0.02
"""The spread of what has one axis."""

Bits = NDArray[np.uint16]


class Noise:
    """Tensors in bfloat16 by name and shape: the same name holds the same numbers.

    Matrices keep a signal's size, norms are one, and all else is small.
    """

    def __init__(self, seed: int = 0, draws: int = DRAWS) -> None:
        """Draw once; tensors are runs of the draws, each from its own start."""
        self._draws = np.random.default_rng(seed).standard_normal(draws, dtype=np.float32)
        self._scaled: dict[float, Bits] = {}

    def pieces(self, name: str, shape: Shape) -> Iterator[Bits]:
        """The tensor's numbers in order, in pieces of at most the draws."""
        count = prod(shape)
        if _is_scale(name):
            yield np.full(count, _bfloat16(np.ones(1, np.float32))[0])
            return
        draws = self._of(SMALL if len(shape) == 1 else prod(shape[1:]) ** -0.5)
        at = crc32(name.encode()) % len(draws)
        while count:
            piece = draws[at : at + count]
            yield piece
            at, count = 0, count - len(piece)

    def _of(self, spread: float) -> Bits:
        if spread not in self._scaled:
            self._scaled[spread] = _bfloat16(self._draws * np.float32(spread))
        return self._scaled[spread]


def _is_scale(name: str) -> bool:
    """Whether a tensor is the weight of a norm, whose module is called so."""
    module, _, kind = name.rpartition(".")
    return kind == "weight" and "norm" in module.rpartition(".")[2]


def _bfloat16(values: NDArray[np.float32]) -> Bits:
    """The upper halves of float32 numbers, rounded to nearest."""
    return ((values.view(np.uint32) + np.uint32(0x8000)) >> np.uint32(16)).astype(np.uint16)
