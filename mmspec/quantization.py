"""Weight-only quantization on loading: what can be asked for, and the bytes that it takes."""

import re
from dataclasses import dataclass
from math import prod

from mmspec.errors import choice

LINEAR = re.compile(r"(\.layers\.\d+\..*|^multi_modal_projector\.linear_\d)\.weight$")
"""Weights of linear layers; norms, of one axis, match too."""


@dataclass(frozen=True, slots=True)
class Scheme:
    """8 bits, or 4 in groups."""

    word: str
    group: int | None = None
    """Inputs that share a scale and a centre; None in 8 bits, where all of an output share one."""

    def bytes(self, outputs: int, inputs: int, width: int) -> int:
        """Bytes of a matrix whose scales and centres take `width` each."""
        if self.group is None:
            return outputs * (inputs + width)
        return outputs * (inputs // 2 + inputs // self.group * 2 * width)


SCHEMES = (Scheme("int8"), Scheme("int4", 64), Scheme("int4-32", 32), Scheme("int4-128", 128))


def read_scheme(word: str) -> Scheme | None:
    """The scheme called `word`; None for 'none'.  Raises UsageError."""
    known = {scheme.word: scheme for scheme in SCHEMES}
    if word not in ("none", *known):
        raise choice("quantization", word, ["none", *known])
    return known.get(word)


def held_bytes(name: str, shape: tuple[int, ...], width: int, scheme: Scheme | None) -> int:
    """Bytes of a tensor by its canonical name, floats taking `width`, linear layers by `scheme`."""
    if scheme is None or len(shape) != 2 or not LINEAR.search(name):
        return width * prod(shape)
    return scheme.bytes(*shape, width)


def computed(dtype: str, quantize: str) -> str:
    """How a model computes, in words: its type, and its quantization where there is one."""
    return dtype if quantize == "none" else f"{dtype} {quantize}"
