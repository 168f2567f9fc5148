"""Which rows a head's layer is fed for a sequence, in integers: its slots, images and packing.

Column c of a sequence holds an embedding e_c and, once the target has fed it, a hidden state h_c.
Slot j pairs h_j with e_{j+1}: the feature after a token with the token that came of it (EAGLE, Li
et al. 2024, section 3.1). A sequence of n columns, the last not fed yet, has the slots 0 to n - 2.

An image in columns p to p + N - 1 is met as the *next* column in the slots p - 1 to p + N - 2. A
head that keeps images apart feeds these N slots with something else than the pair, or packs them
into fewer rows (MSD; FLASH). Every text column but the first still appears in exactly one pair.

Shape letters: n columns, N columns of an image, C rows that it is packed into.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from mmspec.seam import Segment

Span = tuple[int, int]
"""First column of an image, and the one after its last."""


class Run(NamedTuple):
    """Slots from `start` to `stop` that are fed alike."""

    start: int
    stop: int
    image: Span | None = None
    """The image whose slots they are; None where pairs are fed."""


@dataclass(frozen=True, slots=True)
class Outline:
    """A sequence's columns and where its images are; immutable."""

    apart: bool = False
    """Whether the head keeps images apart."""
    packed: int = 0
    """C; 0 where an image keeps as many rows as it has slots."""
    columns: int = 0
    """n"""
    images: tuple[Span, ...] = ()

    def extended(self, segment: Segment, image_token_id: int | None) -> "Outline":
        """With a segment appended; an image token without an image is text."""
        spans = tuple(located(segment, self.columns, image_token_id))
        return replace(self, columns=self.columns + len(segment.tokens), images=self.images + spans)

    def grown(self, count: int) -> "Outline":
        """With `count` tokens of text appended."""
        return replace(self, columns=self.columns + count)

    def cut(self, columns: int) -> "Outline":
        """The first `columns` only; an image that does not end within them is gone."""
        kept = tuple(image for image in self.images if image[1] <= columns)
        return replace(self, columns=columns, images=kept)

    @property
    def slots(self) -> int:
        """How many slots there are, n - 1; the last one waits where an image comes last."""
        return max(self.columns - 1, 0)

    @property
    def ends_in_image(self) -> bool:
        """Whether the last column, which is not fed, is an image's."""
        return bool(self.images) and self.images[-1][1] == self.columns

    def settled(self, slots: int) -> int:
        """The most slots, up to `slots`, that part no image."""
        parted = (run.start for run in self._visual() if run.start < slots < run.stop)
        return next(parted, max(slots, 0))

    def rows(self, slots: int) -> int:
        """The rows that the first `slots` slots are fed as; `slots` parts no image."""
        done = (run for run in self._visual() if run.stop <= slots)
        saved = sum(run.stop - run.start - self.packed for run in done) if self.packed else 0
        return max(slots, 0) - saved

    def runs(self, start: int, stop: int) -> Iterator[Run]:
        """The slots from `start` to `stop`, neither of which parts an image."""
        at = start
        for run in self._visual():
            if run.start >= start and run.stop <= stop:
                if at < run.start:
                    yield Run(at, run.start)
                yield run
                at = run.stop
        if at < stop:
            yield Run(at, stop)

    def _visual(self) -> Iterator[Run]:
        """The runs in which an image is met, whole; none where images are not kept apart."""
        if self.apart:
            for first, end in self.images:
                # An image that begins the sequence has lost the slot before its first column.
                start = max(first - 1, 0)
                if start < end - 1:
                    yield Run(start, end - 1, (first, end))


def located(segment: Segment, start: int, image_token_id: int | None) -> Iterator[Span]:
    """The columns of a segment's images, the segment beginning at column `start`."""
    tokens: Sequence[int] = segment.tokens
    at = 0
    for image in segment.features:
        while tokens[at] != image_token_id:
            at += 1
        yield start + at, start + at + image.positions
        at += image.positions
