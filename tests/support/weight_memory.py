"""Computes how much memory weights take."""

import re
from math import prod

from mmspec.checkpoints.quantization import Scheme

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
