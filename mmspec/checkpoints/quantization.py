"""Schemes for quantizing weights on loading, and the bytes of quantized weights."""

import re
from dataclasses import dataclass
from math import prod

from mmspec.errors import choice

LINEAR = re.compile(r"(\.layers\.\d+\..*|^multi_modal_projector\.linear_\d)\.weight$")
"""Names of linear layers' weights; also matches norms, which have one axis."""


@dataclass(frozen=True, slots=True)
class Scheme:
    """A quantization scheme: 8 bits per weight, or 4 bits in groups of inputs."""

    name: str
    group: int | None = None
    """Number of inputs that share a scale and a zero point; None (8 bits): one scale per output."""

    def bytes(self, outputs: int, inputs: int, width: int) -> int:
        """Bytes of a matrix whose scales and zero points have `width` bytes each."""
        if self.group is None:
            return outputs * (inputs + width)
        return outputs * (inputs // 2 + inputs // self.group * 2 * width)


SCHEMES = (Scheme("int8"), Scheme("int4", 64), Scheme("int4-32", 32), Scheme("int4-128", 128))


def read_scheme(name: str) -> Scheme | None:
    """The quantization scheme called `name`; None for 'none'. Raises UsageError if unknown."""
    schemes = {scheme.name: scheme for scheme in SCHEMES}
    if name not in ("none", *schemes):
        raise choice("quantization", name, ["none", *schemes])
    return schemes.get(name)


def held_bytes(name: str, shape: tuple[int, ...], width: int, scheme: Scheme | None) -> int:
    """Bytes of a tensor: `width` per number, or by `scheme` if it is a linear layer's weight."""
    if scheme is None or len(shape) != 2 or not LINEAR.search(name):
        return width * prod(shape)
    return scheme.bytes(*shape, width)


def computed(dtype: str, quantize: str) -> str:
    """A model's dtype and quantization as one text, such as 'bfloat16, int8'."""
    return dtype if quantize == "none" else f"{dtype} {quantize}"
