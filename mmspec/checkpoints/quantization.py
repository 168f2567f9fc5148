"""Schemes for quantizing weights on loading."""

from dataclasses import dataclass

from mmspec.ground.errors import choice


@dataclass(frozen=True, slots=True)
class Scheme:
    """A quantization scheme: 8 bits per weight, or 4 bits in groups of inputs."""

    name: str
    group: int | None = None
    """Number of inputs that share a scale and a zero point; None (8 bits): one scale per output."""


SCHEMES = (Scheme("int8"), Scheme("int4", 64), Scheme("int4-32", 32), Scheme("int4-128", 128))


def read_scheme(name: str) -> Scheme | None:
    """The quantization scheme called `name`; None for 'none'. Raises UsageError if unknown."""
    schemes = {scheme.name: scheme for scheme in SCHEMES}
    if name not in ("none", *schemes):
        raise choice("quantization", name, ["none", *schemes])
    return schemes.get(name)


def number_type(dtype: str, quantize: str) -> str:
    """A model's dtype and quantization as one text, such as 'bfloat16 int8'."""
    return dtype if quantize == "none" else f"{dtype} {quantize}"
