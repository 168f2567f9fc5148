"""Vision features whose positions form a grid, perhaps after a class token.

Shape letters: N visual positions of one image, D numbers of a position.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, Self

from mmspec.families.grid import Grid


class GridFeatures(ABC):
    """Implements `contract.Features`; a backend adds copies to the host and concatenation."""

    def __init__(self, rows: Any, grid: Grid) -> None:
        """rows: the features [N, D] on the device."""
        self.rows, self.grid = rows, grid
        self._pooled: dict[int, Self] = {}

    @property
    def positions(self) -> int:
        """N, the number of visual positions of the image."""
        return self.grid.positions

    @property
    def nbytes(self) -> int:
        """Bytes on the device, without pooled copies."""
        return int(self.rows.nbytes)

    def pooled(self, positions: int) -> Self:
        """Average-pool to the grid's `pooled(positions)`; cached.  Raises UsageError like it."""
        if positions == self.positions:
            return self
        if positions not in self._pooled:
            grid = self.grid.pooled(positions)
            rows = averaged(self.rows, self.grid, grid, self._joined)
            self._pooled[positions] = type(self)(rows, grid)
        return self._pooled[positions]

    @abstractmethod
    def _joined(self, parts: Sequence[Any]) -> Any:
        """Concatenate arrays along their last axis."""


def averaged(rows: Any, grid: Grid, to: Grid, joined: Any) -> Any:
    """Average the squares of a grid's rows [N, D] to those of the grid `to`; no class tokens.

    Squares at the lower and right edges may be cut.  joined: concatenates along the last axis.
    """
    squares = rows[grid.class_tokens :].reshape(grid.height, grid.width, -1)
    block = -(-grid.height // to.height)
    bands = [squares[at : at + block].mean(axis=0) for at in range(0, grid.height, block)]
    lines = joined(bands).reshape(grid.width, to.height, -1)
    block = -(-grid.width // to.width)
    parts = [lines[at : at + block].mean(axis=0) for at in range(0, grid.width, block)]
    return joined(parts).reshape(to.height * to.width, -1)
