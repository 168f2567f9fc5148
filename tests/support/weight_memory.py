"""Computes how much memory a checkpoint's weights take, from the headers of its files."""

import re
from collections.abc import Iterable
from math import prod
from pathlib import Path

from mmspec.checkpoints.config import read_config
from mmspec.checkpoints.loading_plan import TensorSource, plan
from mmspec.checkpoints.quantization import Scheme
from mmspec.checkpoints.safetensors_header import StoredTensor

WIDTHS = {"float32": 4, "float16": 2, "bfloat16": 2}
"""Bytes per number, by dtype."""
LINEAR = re.compile(r"(\.layers\.\d+\..*|^multi_modal_projector\.linear_\d)\.weight$")
"""Names of linear layers' weights; also matches norms, which have one axis."""


def held_bytes(name: str, shape: tuple[int, ...], width: int, scheme: Scheme | None) -> int:
    """Bytes of a tensor: `width` per number, or by `scheme` if it is a linear layer's weight."""
    if scheme is None or len(shape) != 2 or not LINEAR.search(name):
        return width * prod(shape)
    outputs, inputs = shape
    if scheme.group is None:
        return outputs * (inputs + width)
    return outputs * (inputs // 2 + inputs // scheme.group * 2 * width)


def weight_bytes(directory: Path, dtype: str, *, packed: bool) -> int:
    """Bytes of a model's weights once loaded.

    Copies that a CPU makes of small matrices are not counted; they are small for models near the
    limit of memory.

    dtype: the type in which weights are loaded; 'auto' keeps each tensor's. packed: true if
    quantized weights stay quantized. Raises CheckpointError for files without a model.
    """
    sources = plan(directory, read_config(directory)).values()
    return sum(_bytes(source, WIDTHS.get(dtype), packed) for source in sources)


def _bytes(source: TensorSource, width: int | None, packed: bool) -> int:
    if source.packing and packed:
        return _stored((source.stored, source.packing.scales, source.packing.biases))
    floats = source.packing.scales if source.packing else source.stored
    return prod(source.shape) * (width or _stored((floats,)) // prod(floats.shape))


def _stored(parts: Iterable[StoredTensor]) -> int:
    return sum(part.end - part.start for part in parts)
