"""A bar of the bytes that are read of a large checkpoint."""

from collections.abc import Iterable

from mmspec.checkpoints.loading_plan import TensorSource
from mmspec.checkpoints.safetensors_file import StoredTensor
from mmspec.ground.progress import Progress

LARGE = 10**9
"""Bytes of weights from which a bar is shown; fewer are read in about a second."""
CELLS = 20
"""Width of the bar, in characters."""


class LoadingProgress:
    """Counts tensors as they are read, and shows each new percentage."""

    def __init__(self, sources: Iterable[TensorSource], show: Progress) -> None:
        self._show = show
        self._total = sum(_size(source.tensor) for source in sources)
        self._position = 0
        self._percent = -1

    def count(self, tensor: StoredTensor) -> None:
        """Count a tensor that is about to be read."""
        percent = 100 * self._position // max(self._total, 1)
        self._position = min(self._total, self._position + _size(tensor))
        if self._total >= LARGE and percent > self._percent:
            self._percent = percent
            cells = "█" * (percent * CELLS // 100)
            total = f"{self._total / 1e9:.1f} GB"
            self._show(f"{cells:░<{CELLS}} {percent} % of {total}")


def _size(tensor: StoredTensor) -> int:
    return tensor.end - tensor.start
