"""Optional protocols: a backend with these members also quantizes, and shows its stages in `check`.

Shape letters: N visual positions of one image, D width of the vision tower, H width of the language
model.
"""

from pathlib import Path
from typing import Protocol, runtime_checkable

from mmspec.decoding.contract import Features, Float32


@runtime_checkable
class ReadableFeatures(Protocol):
    """Features that can be copied to the host."""

    def numpy(self) -> Float32:
        """The features [N, D] on the host.  Blocks."""


@runtime_checkable
class ProjectingModel(Protocol):
    """A model that shows its projector's output."""

    def project(self, features: Features) -> Float32:
        """The projector's output [N, H] on the host.  Blocks."""


@runtime_checkable
class Quantizer(Protocol):
    """A backend that writes quantized checkpoints."""

    def quantize(self, source: Path, destination: Path, *, bits: int, group_size: int) -> None:
        """Write a quantized copy in MLX's format."""
