"""What one row of a cache holds, on the host."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import accumulate
from typing import NamedTuple

from mmspec.seam import Features, Segment

PAD = -1
"""Stands in a row's column where a longer row holds a token."""


class Placed(NamedTuple):
    """An image and the columns of it that are held; `origin` is that of its first position."""

    origin: int
    stop: int
    features: Features


@dataclass(slots=True)
class Row:
    """Tokens by column and where the images are.

    Its owner says how many columns count; the rest is cut away before anything is appended.
    """

    tokens: list[int] = field(default_factory=list)
    images: list[Placed] = field(default_factory=list)

    def append(self, length: int, segment: Segment, padding: int, image_id: int | None) -> None:
        """Write `padding` and a segment at column `length`.

        Raises ValueError where the segment's image tokens are not its images' positions.
        """
        images = list(_places(segment, length + padding, image_id))
        self.cut(length)
        self.tokens += [PAD] * padding
        self.tokens += segment.tokens
        self.images += images

    def extend(self, length: int, tokens: list[int]) -> None:
        """Write tokens of text at column `length`."""
        self.cut(length)
        self.tokens += tokens

    def cut(self, length: int) -> None:
        """Forget the columns from `length` on."""
        del self.tokens[length:]
        if self.images and self.images[-1].stop > length:
            kept = (image for image in self.images if image.origin < length)
            self.images = [image._replace(stop=min(image.stop, length)) for image in kept]

    def shown(self, length: int) -> list[tuple[int, int]]:
        """The columns of the images among the first `length`."""
        spans = ((image.origin, min(image.stop, length)) for image in self.images)
        return [span for span in spans if span[0] < span[1]]

    def lengths(self, columns: int) -> list[int]:
        """How many tokens, padding left out, precede the end of each of the first `columns`."""
        return list(accumulate(token != PAD for token in self.tokens[:columns]))


def _places(segment: Segment, start: int, image_id: int | None) -> Iterator[Placed]:
    """Find each image's run of image tokens, whole and in order.

    Without images an image token is text: a model may have said it.
    """
    if not segment.features:
        return
    tokens, at = list(segment.tokens), 0
    held = sum(token == image_id for token in tokens)
    if held != (needed := sum(image.positions for image in segment.features)):
        raise ValueError(f"{held} image tokens for images of {needed} positions")
    for image in segment.features:
        at = tokens.index(image_id, at)  # type: ignore[arg-type]
        end = at + image.positions
        if tokens[at:end] != [image_id] * image.positions:
            raise ValueError(f"image tokens are split at {at}: {image.positions} go in a row")
        yield Placed(start + at, start + end, image)
        at = end
