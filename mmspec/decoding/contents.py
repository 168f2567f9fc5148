"""The content of a sequence on the host: token ids, placed images and padding.

Shape letters: n columns, N visual positions of one image, H width.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any, Generic, NamedTuple

from mmspec.decoding.arrays import A
from mmspec.seam import Features, Segment

PAD = -1
"""Id of padding: a column where only a longer row has a token."""
IMAGE = -2
"""Token id that stands for a column of an image."""

CHUNK = 512
"""Number of columns fed at once in a prefill, which bounds the memory of activations and masks."""

Projection = Callable[[Features], A]
"""Function from an image's features to embeddings [N, H]."""


class PlacedImage(NamedTuple, Generic[A]):
    """An image's embeddings [N, H] and their first column."""

    start: int
    rows: A

    @property
    def stop(self) -> int:
        """The first column after the image."""
        return self.start + len(self.rows)


@dataclass(slots=True)
class Row(Generic[A]):
    """The token ids of one row by column, and the row's images.

    The owner knows how many columns are valid; appending removes the others first.
    """

    tokens: list[int] = field(default_factory=list)
    images: list[PlacedImage[A]] = field(default_factory=list)

    def append(
        self, length: int, segment: Segment, project: Projection[A], padding: int = 0
    ) -> None:
        """Write `padding` columns of padding, then a segment, from column `length` on."""
        images = [
            PlacedImage(start, project(features))
            for start, features in segment.images(length + padding)
        ]
        self.cut(length)
        self.tokens += [PAD] * padding + segment.token_ids(IMAGE)
        self.images += images

    def extend(self, length: int, tokens: Sequence[int]) -> None:
        """Write text tokens from column `length` on."""
        self.cut(length)
        self.tokens += tokens

    def cut(self, length: int) -> None:
        """Remove the columns from `length` on."""
        del self.tokens[length:]
        if self.images and self.images[-1].stop > length:
            within = (image for image in self.images if image.start < length)
            self.images = [
                PlacedImage(image.start, image.rows[: length - image.start]) for image in within
            ]

    def has_image(self, start: int, stop: int) -> bool:
        """True if an image has any of the columns `start` to `stop`."""
        return any(max(image.start, start) < min(image.stop, stop) for image in self.images)

    def lengths(self, columns: int) -> list[int]:
        """For each of the first `columns` columns, the number of tokens up to and including it."""
        return list(accumulate(token != PAD for token in self.tokens[:columns]))

    def ids(self, start: int, stop: int, vocabulary: int) -> list[int]:
        """Token ids [n] of columns `start` to `stop`; invalid ids become the nearest valid one."""
        return [min(max(token, 0), vocabulary - 1) for token in self.tokens[start:stop]]

    def write_images(self, x: Any, start: int, stop: int) -> None:
        """Write the images' embeddings into x [n, H], which holds columns `start` to `stop`."""
        for image in self.images:
            low, high = max(image.start, start), min(image.stop, stop)
            if low < high:
                part = image.rows[low - image.start : high - image.start]
                x[low - start : high - start] = part


def chunks(start: int, end: int) -> Iterator[tuple[int, int]]:
    """The columns `start` to `end` in runs of at most CHUNK."""
    return ((at, min(at + CHUNK, end)) for at in range(start, end, CHUNK))
