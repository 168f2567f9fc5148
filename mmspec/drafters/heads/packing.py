"""Computes, in integers, which rows a head's layer is fed: slots, images and packing.

Column c of a sequence has an embedding e_c and, once the target has fed it, a hidden state h_c.
Slot j pairs h_j with e_{j+1}: the feature at a token with the token that follows it (EAGLE, Li et
al. 2024, section 3.1). A sequence of n columns, the last not fed, has the slots 0 to n - 2.

An image in columns p to p + N - 1 is the *next* column in the slots p - 1 to p + N - 2. MSD and
FLASH feed these N slots other rows than pairs, and FLASH packs them into C rows. Every text column
but the first appears in exactly one pair.

Shape letters: n columns, N columns of an image, C rows that an image is packed into.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

from mmspec.decoding.contract import Segment

Span = tuple[int, int]
"""Range of the columns of an image: the first, and the one after the last."""


class Run(NamedTuple):
    """A range of slots that are fed the same kind of input."""

    start: int
    stop: int
    image: Span | None = None
    """The columns of the image that these slots stand for; None if each pairs an h with an e."""


@dataclass(frozen=True, slots=True)
class Outline:
    """The shape of a sequence: its number of columns and where its images are; immutable."""

    apart: bool = False
    """True if the slots of images are fed other rows than pairs."""
    image_rows: int = 0
    """C, the number of rows of an image; 0 if it has as many rows as slots."""
    columns: int = 0
    """n, the number of columns."""
    images: tuple[Span, ...] = ()
    in_place: bool = False
    """True if rows stand at the positions of their slots, a packed image at those of its last."""

    def with_segment(self, segment: Segment) -> "Outline":
        """The outline after appending a segment."""
        images = segment.images(self.columns)
        spans = tuple((start, start + image.positions) for start, image in images)
        return replace(self, columns=self.columns + len(segment), images=self.images + spans)

    def with_text(self, count: int) -> "Outline":
        """The outline after appending `count` text tokens."""
        return replace(self, columns=self.columns + count)

    def cut(self, columns: int) -> "Outline":
        """The outline of the first `columns` columns; an image that ends beyond them is dropped."""
        images = tuple(image for image in self.images if image[1] <= columns)
        return replace(self, columns=columns, images=images)

    @property
    def slots(self) -> int:
        """The number of slots, n - 1."""
        return max(self.columns - 1, 0)

    @property
    def ends_in_image(self) -> bool:
        """True if the last column, which is not fed, belongs to an image."""
        return bool(self.images) and self.images[-1][1] == self.columns

    def whole_slots(self, slots: int) -> int:
        """The largest number of leading slots, at most `slots`, that does not split an image."""
        starts = (run.start for run in self._visual() if run.start < slots < run.stop)
        return next(starts, max(slots, 0))

    def rows(self, slots: int) -> int:
        """The number of rows fed for the first `slots` slots, which must not split an image."""
        if not self.image_rows:
            return max(slots, 0)
        images = (run for run in self._visual() if run.stop <= slots)
        return max(slots, 0) - sum(run.stop - run.start - self.image_rows for run in images)

    def position(self, slots: int) -> int:
        """The position of the row after those of the first `slots` slots."""
        return slots if self.in_place else self.rows(slots)

    def positions(self, start: int, stop: int) -> list[int]:
        """The position of each row from slot `start` up to `stop`."""
        if not self.in_place:
            return [*range(self.rows(start), self.rows(stop))]
        runs = self.runs(start, stop)
        spans = ((run.stop - self.image_rows if run.image else run.start, run.stop) for run in runs)
        return [place for first, end in spans for place in range(first, end)]

    def text_runs(self, start: int, stop: int) -> Iterator[Span]:
        """The columns from `start` up to `stop` that belong to no image, run by run."""
        for first, end in self.images:
            if start < min(first, stop):
                yield start, min(first, stop)
            start = max(start, end)
        if start < stop:
            yield start, stop

    def last_image(self, slot: int) -> Span | None:
        """The columns of the last image whose slots all come before `slot`."""
        before = [run.image for run in self._visual() if run.stop <= slot]
        return before[-1] if before else None

    def runs(self, start: int, stop: int) -> Iterator[Run]:
        """The runs from slot `start` up to `stop`, neither of which splits an image."""
        first = start
        for run in self._visual():
            if run.start >= start and run.stop <= stop:
                if first < run.start:
                    yield Run(first, run.start)
                yield run
                first = run.stop
        if first < stop:
            yield Run(first, stop)

    def _visual(self) -> Iterator[Run]:
        """The runs whose slots belong to images; none if images are fed like text, in pairs."""
        if self.apart:
            for first, end in self.images:
                # An image at the start of the sequence has no slot before its first column.
                start = max(first - 1, 0)
                if start < end - 1:
                    yield Run(start, end - 1, (first, end))
