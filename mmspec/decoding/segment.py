"""What is appended to a sequence: token ids, and features of images.

Shape letters: N visual positions of one image, D width of the vision tower.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

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

    def pooled(self, positions: int) -> "Features":
        """Average-pool to the grid's `pooled(positions)`; cached (IbED, section 3.2).

        Raises UsageError for a number that the grid cannot be pooled to.
        """


@dataclass(frozen=True, slots=True)
class Segment:
    """Runs of token ids and images to append to one sequence.

    Every id is text, even if it equals the image token's: a model may have generated that.
    """

    parts: Sequence[Sequence[int] | Features]
    is_answer: bool = False
    """True for an earlier answer: an exact target gives it the bits that decoding gave it."""

    def __len__(self) -> int:
        return sum(_positions(part) for part in self.parts)

    @property
    def last(self) -> int | None:
        """The token at the last position; None if the segment is empty or ends in an image."""
        part = next((part for part in reversed(self.parts) if _positions(part)), None)
        return part[-1] if isinstance(part, Sequence) else None

    def images(self, start: int) -> Iterator[tuple[int, Features]]:
        """Each image and its first position, if the segment begins at position `start`."""
        at = start
        for part in self.parts:
            if not isinstance(part, Sequence):
                yield at, part
            at += _positions(part)

    def token_ids(self, image: int) -> list[int]:
        """One id per position; the positions of images get the id `image`."""
        ids: list[int] = []
        for part in self.parts:
            ids += part if isinstance(part, Sequence) else [image] * part.positions
        return ids


def _positions(part: Sequence[int] | Features) -> int:
    return len(part) if isinstance(part, Sequence) else part.positions
