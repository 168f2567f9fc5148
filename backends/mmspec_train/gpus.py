"""GPUs by name, with the rates that a plan of a training counts on."""

from dataclasses import dataclass

from mmspec.ground.errors import UsageError, choice

GIGA, TERA = 10**9, 10**12


@dataclass(frozen=True, slots=True)
class Gpu:
    """Rates of a GPU, those that training reaches."""

    name: str
    operations: float
    """Operations per second in 16 bits."""
    bandwidth: float
    """Bytes per second."""
    memory: float
    """Bytes."""


DATASHEETS = {
    "rtx-4090": (165, 1.01, 24),
    "a100": (312, 2.04, 80),
    "h100": (989, 3.35, 80),
    "h200": (989, 4.8, 141),
}
"""TFLOP/s in dense bfloat16, TB/s and GB of GPUs by name, as their makers give them."""
REACHED = 0.4
"""Assumed share of a datasheet's rates that training reaches; not measured here."""


def read_gpu(text: str) -> Gpu:
    """Read a GPU's name, or measured rates as in `mine=130,0.9,24`: TFLOP/s, TB/s, GB.

    Raises UsageError for another name or form.
    """
    name, separator, measured = text.partition("=")
    if not separator:
        if name.lower() not in DATASHEETS:
            raise choice("GPU", name, DATASHEETS)
        peak, copied, size = DATASHEETS[name.lower()]
        return Gpu(name, REACHED * peak * TERA, REACHED * copied * TERA, size * GIGA)
    try:
        tflops, bandwidth, memory = map(float, measured.split(","))
    except ValueError as error:
        raise UsageError(
            f"--plan {text}: give a name, or measured TFLOP/s, TB/s and GB as mine=130,0.9,24"
        ) from error
    return Gpu(name, tflops * TERA, bandwidth * TERA, memory * GIGA)
