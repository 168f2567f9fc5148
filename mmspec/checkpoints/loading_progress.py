"""A bar of the bytes that are read of a large checkpoint."""

from collections.abc import Callable, Iterable

from mmspec.checkpoints.loading_plan import TensorSource
from mmspec.checkpoints.safetensors_file import StoredTensor
from mmspec.ground.progress import Progress

LARGE = 10**9
"""Bytes of weights from which a bar is shown; fewer are read in about a second."""
CELLS = 20
"""Width of the bar, in characters."""


def loading_progress(
    sources: Iterable[TensorSource], show: Progress
) -> Callable[[StoredTensor], None]:
    """Return a function to call before each tensor is read; it shows each new percentage."""
    total = sum(source.tensor.end - source.tensor.start for source in sources)
    position, shown = 0, -1

    def count(tensor: StoredTensor) -> None:
        nonlocal position, shown
        percent = 100 * position // max(total, 1)
        position = min(total, position + tensor.end - tensor.start)
        if total >= LARGE and percent > shown:
            shown = percent
            cells = "█" * (percent * CELLS // 100)
            show(f"{cells:░<{CELLS}} {percent} % of {total / 1e9:.1f} GB")

    return count
