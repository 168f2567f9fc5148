"""The content of a sequence on the host: token ids, placed images and padding.

A column is a place in the cache. A rotary position is where the model sees it: padding takes none,
and an image may take fewer than it has columns, so text after it stands before its own column.

Shape letters: n columns, N visual positions of one image, H width, W numbers of a visual position.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, NamedTuple

import numpy as np

from mmspec.decoding.contract import Features, Segment
from mmspec.decoding.segment import count_positions
from mmspec.ground.arrays import A, Positions
from mmspec.ground.tokens import NO_TOKEN, PADDING

CHUNK = 512
"""Number of columns fed at once in a prefill, which bounds the memory of activations and masks."""

Projection = Callable[[Features], A]
"""Function from an image's features to the rows [N, W] of a placed image."""


class PlacedImage(NamedTuple, Generic[A]):
    """An image's first column and its rows [N, W], embeddings [N, H] first."""

    start: int
    rows: Any
    rotary: Positions | None = None
    """Rotary positions [3, N] relative to the image's first; None if they count up."""

    @property
    def stop(self) -> int:
        """The first column after the image."""
        return self.start + len(self.rows)

    def cut(self, columns: int) -> "PlacedImage[A]":
        """The image without its columns from `columns` on."""
        count = columns - self.start
        rotary = None if self.rotary is None else self.rotary[:, :count]
        return PlacedImage(self.start, self.rows[:count], rotary)


@dataclass(slots=True)
class Row(Generic[A]):
    """The token ids of one row by column, and the row's images.

    The owner knows how many columns are valid; appending removes the others first.
    """

    tokens: list[int] = field(default_factory=list)
    images: list[PlacedImage[A]] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)
    """For each column, the rotary position that follows it."""

    def append(
        self, length: int, segment: Segment, project: Projection[A], padding: int = 0
    ) -> None:
        """Write `padding` columns of padding, then a segment, from column `length` on."""
        images = [
            PlacedImage(start, project(features), _rotary(features))
            for start, features in segment.images(length + padding)
        ]
        self.cut(length)
        self.tokens += [PADDING] * padding + segment.token_ids(NO_TOKEN)
        self.images += images
        end = self.position(length)
        self.ends += [end] * padding + list(_ends(end, segment))

    def extend(self, length: int, tokens: Sequence[int]) -> None:
        """Write text tokens from column `length` on."""
        self.cut(length)
        self.tokens += tokens
        end = self.position(length)
        self.ends += range(end + 1, end + 1 + len(tokens))

    def cut(self, length: int) -> None:
        """Remove the columns from `length` on."""
        del self.tokens[length:], self.ends[length:]
        if self.images and self.images[-1].stop > length:
            within = (image for image in self.images if image.start < length)
            self.images = [image.cut(length) for image in within]

    def position(self, column: int) -> int:
        """The rotary position that follows the columns before `column`."""
        return self.ends[column - 1] if column else 0

    def _within(self, start: int, stop: int) -> Iterator[tuple[PlacedImage[A], slice, slice]]:
        """Each image in the columns `start` to `stop`: which of its rows are there, and where."""
        for image in self.images:
            low, high = max(image.start, start), min(image.stop, stop)
            if low < high:
                rows = slice(low - image.start, high - image.start)
                yield image, rows, slice(low - start, high - start)

    def image_width(self, start: int, stop: int) -> int:
        """W of the images in the columns `start` to `stop`; 0 if there are none."""
        return next((int(image.rows.shape[1]) for image, *_ in self._within(start, stop)), 0)

    def shift(self, column: int) -> int:
        """What must be added to `column`, of text or not known yet, for its rotary position."""
        end = min(column, len(self.ends))
        return self.position(end) - end

    def counts_up(self, start: int, stop: int) -> bool:
        """True if the rotary positions of the columns `start` to `stop` are those of text."""
        return all(image.rotary is None for image, *_ in self._within(start, stop))

    def positions(self, start: int, stop: int) -> Positions:
        """Rotary positions [3, n] of columns `start` to `stop`; of padding arbitrary ones."""
        line = np.maximum(np.array(self.ends[start:stop], dtype=np.int64) - 1, 0)
        planes = np.repeat(line[None], 3, axis=0)
        for image, rows, columns in self._within(start, stop):
            if image.rotary is not None:
                planes[:, columns] = self.position(image.start) + image.rotary[:, rows]
        return planes

    def length(self, columns: int) -> int:
        """The number of tokens in the first `columns` columns, without padding."""
        return columns - self.tokens[:columns].count(PADDING)

    def ids(self, start: int, stop: int, vocabulary: int) -> list[int]:
        """Token ids [n] of columns `start` to `stop`; invalid ids become the nearest valid one."""
        return [min(max(token, 0), vocabulary - 1) for token in self.tokens[start:stop]]

    def write_images(self, x: Any, start: int, stop: int, first: int = 0) -> None:
        """Write the images' rows into x [n, w], which holds columns `start` to `stop`.

        first: the first of the w numbers of a row that are written.
        """
        last = first + x.shape[1]
        for image, rows, columns in self._within(start, stop):
            x[columns] = image.rows[rows, first:last]


def _ends(start: int, segment: Segment) -> Iterator[int]:
    """For each position of a segment that begins at rotary position `start`, the next one."""
    for part in segment.parts:
        ends: Sequence[int]
        rotary = None if isinstance(part, Sequence) else _rotary(part)
        if rotary is None:
            ends = range(start + 1, start + 1 + count_positions(part))
        else:
            furthest = np.maximum.accumulate(rotary.max(axis=0))
            ends = (start + np.maximum(1 + furthest, 0)).tolist()
        yield from ends
        start = ends[-1] if ends else start


def _rotary(features: Features) -> Positions | None:
    """Rotary positions [3, N] relative to the image's first; None if they count up."""
    rotary = features.grid.rotary
    return None if rotary is None else np.array(rotary, dtype=np.int64)


def chunks(start: int, end: int) -> Iterator[tuple[int, int]]:
    """The columns `start` to `end` in runs of at most CHUNK."""
    return ((low, min(low + CHUNK, end)) for low in range(start, end, CHUNK))
