"""Vision features whose positions form a square grid, perhaps after a class token.

Shape letters: N visual positions of one image, D width of the vision tower.
"""

from math import isqrt
from typing import Any, Self

from mmspec.errors import UsageError


class GridFeatures:
    """Implements `mmspec.seam.Features`; a backend adds how rows are copied to the host."""

    def __init__(self, rows: Any) -> None:
        """rows: the features [N, D] on the device."""
        self.rows = rows
        self._pooled: dict[int, Self] = {}

    @property
    def positions(self) -> int:
        """N, the number of visual positions of the image."""
        return len(self.rows)

    def pooled(self, positions: int) -> Self:
        """Average-pool the grid to `positions` rows; cached.  Raises UsageError like `pooled`."""
        if positions == self.positions:
            return self
        if positions not in self._pooled:
            self._pooled[positions] = type(self)(pooled(self.rows, positions))
        return self._pooled[positions]


def pooled(rows: Any, positions: int) -> Any:
    """Average a square grid [N, D] in equal blocks to [positions, D]; UsageError if impossible.

    A class token before the grid, as `vision_feature_select_strategy: full` keeps, is left out.
    """
    grid, side = isqrt(len(rows)), isqrt(positions)
    class_tokens = len(rows) - grid**2
    if class_tokens > 1 or side**2 != positions or not side or grid % side:
        raise UsageError(
            f"{len(rows)} visual positions cannot be pooled to {positions}: "
            f"give a square whose side divides {grid}"
        )
    block = grid // side
    squares = rows[class_tokens:].reshape(side, block, side, block, -1)
    return squares.mean(axis=(1, 3)).reshape(positions, -1)
