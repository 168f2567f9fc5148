"""Writes random tensors to a safetensors file."""

import json
from collections.abc import Iterator, Mapping
from math import prod
from pathlib import Path
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from mmspec.checkpoints.loading_plan import WEIGHTS_FILE
from mmspec.families.tensors import Shape

DRAWS = 16_777_213
"""Number of normal draws that all tensors share: a prime, so that a matrix's rows differ."""
VECTOR_SPREAD = 0.02
"""Standard deviation of tensors with one axis."""
ITEM_BYTES = 2
"""Number of bytes in a bfloat16 number."""

Tensors = Mapping[str, Shape]
Bits = NDArray[np.uint16]


class RandomTensors:
    """Tensors in bfloat16 by name and shape; equal names give equal values.

    Matrices preserve the scale of their input, norm weights are one, and vectors are small.
    """

    def __init__(self, seed: int = 0, draws: int = DRAWS) -> None:
        self._draws = np.random.default_rng(seed).standard_normal(draws, dtype=np.float32)
        self._scaled: dict[float, Bits] = {}

    def pieces(self, name: str, shape: Shape) -> Iterator[Bits]:
        """The tensor's values in order, in pieces that are runs of the shared draws."""
        count = prod(shape)
        if _is_norm(name):
            yield np.full(count, _bfloat16(np.ones(1, np.float32))[0])
            return
        draws = self._scaled_by(VECTOR_SPREAD if len(shape) == 1 else prod(shape[1:]) ** -0.5)
        start = crc32(name.encode()) % len(draws)
        while count:
            piece = draws[start : start + count]
            yield piece
            start, count = 0, count - len(piece)

    def _scaled_by(self, spread: float) -> Bits:
        if spread not in self._scaled:
            self._scaled[spread] = _bfloat16(self._draws * np.float32(spread))
        return self._scaled[spread]


def _is_norm(name: str) -> bool:
    module, _, kind = name.rpartition(".")
    return kind == "weight" and "norm" in module.rpartition(".")[2]


def _bfloat16(values: NDArray[np.float32]) -> Bits:
    """The upper halves of float32 numbers, rounded to nearest."""
    return ((values.view(np.uint32) + np.uint32(0x8000)) >> np.uint32(16)).astype(np.uint16)


def total_bytes(tensors: Tensors) -> int:
    """Number of bytes that tensors take in 16 bits."""
    return ITEM_BYTES * sum(prod(shape) for shape in tensors.values())


def write_weights(directory: Path, tensors: Tensors, random: RandomTensors) -> None:
    """Write `model.safetensors`, piece by piece."""
    header: dict[str, object] = {"__metadata__": {"format": "pt"}}
    end = 0
    for name, shape in tensors.items():
        start, end = end, end + ITEM_BYTES * prod(shape)
        header[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [start, end]}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with (directory / WEIGHTS_FILE).open("wb") as stream:
        stream.write(len(text).to_bytes(8, "little") + text)
        for name, shape in tensors.items():
            for piece in random.pieces(name, shape):
                stream.write(piece.data)
