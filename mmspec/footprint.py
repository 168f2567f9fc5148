"""Memory that a checkpoint's weights will take, by its headers alone."""

from collections.abc import Iterable
from math import prod
from pathlib import Path

from mmspec.checkpoint import Source, plan
from mmspec.config import read_config
from mmspec.tensorfile import Stored

WIDTHS = {"float32": 4, "float16": 2, "bfloat16": 2}
"""Bytes of a number."""


def weight_bytes(directory: Path, dtype: str, *, packed: bool) -> int:
    """Bytes of a whole model's weights once loaded, each counted once.

    A CPU holds small matrices in two layouts, which is little where memory matters.

    dtype: what they are loaded in; 'auto' keeps each file's.  packed: whether quantized weights
    stay so.  Raises CheckpointError for files that no model is in.
    """
    sources = plan(directory, read_config(directory)).values()
    return sum(_bytes(source, WIDTHS.get(dtype), packed) for source in sources)


def _bytes(source: Source, width: int | None, packed: bool) -> int:
    if source.packing and packed:
        return _stored((source.stored, source.packing.scales, source.packing.biases))
    floats = source.packing.scales if source.packing else source.stored
    return prod(source.shape) * (width or _stored((floats,)) // prod(floats.shape))


def _stored(parts: Iterable[Stored]) -> int:
    return sum(part.end - part.start for part in parts)
