"""What reports and diagnostics ask of a backend, besides the contract in `contract`.

Shape letters: n drafted tokens, N visual positions of one image, D width of the vision tower, H
width of the language model, V vocabulary, W numbers of all layers' keys and values at a column.
"""

from pathlib import Path
from typing import Any, Protocol

from mmspec.decoding.contract import Backend, Features, Float32, Model, Target
from mmspec.decoding.draft import Draft
from mmspec.decoding.exact_rows import ExactRows
from mmspec.decoding.sampling import Sampling
from mmspec.families.grid import Grid


class InspectableFeatures(Features, Protocol):
    """Features that can be measured and copied to the host."""

    @property
    def nbytes(self) -> int:
        """Bytes on the device, without pooled copies."""

    def numpy(self) -> Float32:
        """The features [N, D] on the host.  Blocks."""


class InspectableTarget(Target, Protocol):
    """A target whose logits and cache can be copied to the host."""

    def logits(self) -> Float32:
        """Next-token logits [V] of the sequence on the host.  Blocks; changes nothing."""

    def fed_rows(self, draft: Draft | None) -> tuple[Float32, Float32, Float32]:
        """What feeding the last token and a draft computes, on the host.  Blocks; changes nothing.

        Returns the hidden states [n + 1, H], the logits [n + 1, V], and the keys and values
        [n + 1, W] of all layers.
        """


class InspectableModel(Model, Protocol):
    """A model that reports its settings and exposes intermediate results."""

    @property
    def device(self) -> str:
        """The device, as the framework names it."""

    @property
    def dtype(self) -> str:
        """Type of activations: 'float32', 'bfloat16' or 'float16'."""

    @property
    def quantize(self) -> str:
        """Name of the scheme by which float weights were quantized on loading, or 'none'."""

    def encode(self, pixels: Float32, grid: Grid | None = None) -> InspectableFeatures:
        """See `Model.encode`."""

    def project(self, features: Features) -> Float32:
        """The projector's output [N, H] on the host.  Blocks."""

    def open_target(self, sampling: Sampling, exact: ExactRows | None = None) -> InspectableTarget:
        """See `Model.open_target`."""


class InspectableBackend(Backend[InspectableModel], Protocol):
    """A backend that reports its memory and versions, and synchronizes for timing."""

    def quantize(self, source: Path, destination: Path, *, bits: int, group_size: int) -> None:
        """Write a quantized copy in MLX's format; raises BackendError if it is not supported."""

    def synchronize(self) -> None:
        """Block until all enqueued work is done, so that the parts of a round can be timed."""

    def peak_memory(self) -> int:
        """Peak bytes since `reset_peak_memory`; of the process if the device has no counter."""

    def reset_peak_memory(self) -> None:
        """Reset the device's peak counter, if it has one."""

    def set_threads(self, count: int | None) -> None:
        """Compute with so many CPU threads in the whole process; None: all cores but one.

        None changes nothing where the environment names a number. Raises UsageError for more than
        the cores, BackendError if the framework chooses itself.
        """

    def describe(self) -> dict[str, Any]:
        """Versions, devices and threads, for reports; JSON-serializable."""
