"""What is appended to a sequence: token ids, and features of images.

Shape letters: N visual positions of one image, D width of the vision tower.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, Self

from mmspec.families.grid import Grid


class Features(Protocol):
    """Vision features [N, D] of one image on the device, and what else the family caches."""

    @property
    def positions(self) -> int:
        """N, the number of visual positions."""

    @property
    def grid(self) -> Grid:
        """Where the visual positions are in the image, and their rotary positions."""

    @property
    def nbytes(self) -> int:
        """Bytes on the device, without pooled copies."""

    def pool(self, positions: int) -> "Features":
        """Average-pool to the grid's `pool(positions)`; cached (IbED, section 3.2).

        Raises UsageError for a number that the grid cannot be pooled to.
        """


class GridFeatures:
    """Implements `Features` on a grid; a backend adds copies to the host and concatenation."""

    join: Callable[[Sequence[Any]], Any]
    """Function that concatenates arrays along their last axis."""

    def __init__(self, rows: Any, grid: Grid) -> None:
        """rows: the features [N, D] on the device."""
        self.rows, self.grid = rows, grid
        self.positions, self.nbytes = grid.positions, int(rows.nbytes)
        self._copies: dict[int, Self] = {}

    def pool(self, positions: int) -> Self:
        """Average-pool to the grid's `pool(positions)`; cached.  Raises UsageError like it."""
        if positions == self.positions:
            return self
        if positions not in self._copies:
            grid = self.grid.pool(positions)
            rows = average(self.rows, self.grid, grid, self.join)
            self._copies[positions] = type(self)(rows, grid)
        return self._copies[positions]


def average(rows: Any, grid: Grid, coarse: Grid, join: Any) -> Any:
    """Average the squares of a grid's rows [N, D] to those of a coarse grid; no class tokens.

    Squares at the lower and right edges may be cut.  join: concatenates along the last axis.
    """
    squares = rows[grid.class_tokens :].reshape(grid.height, grid.width, -1)
    block = -(-grid.height // coarse.height)
    bands = [squares[row : row + block].mean(axis=0) for row in range(0, grid.height, block)]
    lines = join(bands).reshape(grid.width, coarse.height, -1)
    block = -(-grid.width // coarse.width)
    parts = [lines[column : column + block].mean(axis=0) for column in range(0, grid.width, block)]
    return join(parts).reshape(coarse.height * coarse.width, -1)


@dataclass(frozen=True, slots=True)
class Segment:
    """Runs of token ids and images to append to one sequence.

    Every id is text, even if it equals the image token's: a model may have generated that.
    """

    parts: Sequence[Sequence[int] | Features]
    is_answer: bool = False
    """True for an earlier answer: an exact target gives it the bits that decoding gave it."""

    def __len__(self) -> int:
        return sum(count_positions(part) for part in self.parts)

    @property
    def last(self) -> int | None:
        """The token at the last position; None if the segment is empty or ends in an image."""
        part = next((part for part in reversed(self.parts) if count_positions(part)), None)
        return part[-1] if isinstance(part, Sequence) else None

    def images(self, start: int) -> Iterator[tuple[int, Features]]:
        """Each image and its first position, if the segment begins at position `start`."""
        for part in self.parts:
            if not isinstance(part, Sequence):
                yield start, part
            start += count_positions(part)

    def token_ids(self, image: int) -> list[int]:
        """One id per position; the positions of images get the id `image`."""
        ids: list[int] = []
        for part in self.parts:
            ids += part if isinstance(part, Sequence) else [image] * part.positions
        return ids


def count_positions(part: Sequence[int] | Features) -> int:
    """The number of positions of a part of a segment."""
    return len(part) if isinstance(part, Sequence) else part.positions
