"""The visual positions of one image: how many, in which grid, and where rotary embeddings put them.

Shape letters: N visual positions of one image.
"""

from dataclasses import dataclass, replace
from math import isqrt
from typing import Self

from mmspec.ground.errors import UsageError


@dataclass(frozen=True, slots=True)
class Grid:
    """A square grid, row by row, perhaps after a class token; its positions count up as text's."""

    height: int
    width: int
    class_tokens: int = 0

    @property
    def positions(self) -> int:
        """N, the number of visual positions."""
        return self.class_tokens + self.height * self.width

    @property
    def rotary(self) -> list[list[int]] | None:
        """Rotary positions [3, N] relative to the image's first; None if they count up."""
        return None

    def pool(self, positions: int) -> Self:
        """The grid after averaging equal squares, without the class token.

        Raises UsageError unless `positions` is a square whose side divides the grid's.
        """
        side = isqrt(positions)
        if side**2 != positions or not side or self.height % side or self.height != self.width:
            raise UsageError(
                f"{self.positions} visual positions cannot be pooled to {positions}: "
                f"give a square whose side divides {self.height}"
            )
        return replace(self, height=side, width=side, class_tokens=0)


@dataclass(frozen=True, slots=True)
class PlaneGrid(Grid):
    """A grid of any shape, whose rotary positions are time, row and column (M-RoPE)."""

    time: int = 0
    """The rotary position in time after the clip's begin; 0 for an image."""
    before: int | None = None
    """The `time` of the clip's moment before, whose rotary positions begin where this one's do."""

    @property
    def rotary(self) -> list[list[int]]:
        """Rotary positions [3, N]: time, row and column.

        Of a clip's later moments they count from the begin of the first, which is before their own.
        """
        longer = max(self.height, self.width) - 1
        begin = 0 if self.before is None else -1 - max(self.before, longer)
        rows, columns = range(begin, begin + self.height), range(begin, begin + self.width)
        places = [(begin + self.time, row, column) for row in rows for column in columns]
        return list(map(list, zip(*places, strict=True)))

    def pool(self, positions: int) -> Self:
        """The grid after averaging the smallest squares that leave at most `positions`.

        Squares at the lower and right edges may be cut. Raises UsageError below one position.
        """
        if positions < 1:
            raise UsageError(f"visual positions cannot be pooled to {positions}: give 1 or more")
        sides = range(1, max(self.height, self.width) + 1)
        shapes = ((-(-self.height // side), -(-self.width // side)) for side in sides)
        height, width = next(shape for shape in shapes if shape[0] * shape[1] <= positions)
        return replace(self, height=height, width=width)
