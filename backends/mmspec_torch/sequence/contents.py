"""The content of a sequence on the host: token ids, placed images and padding.

Shape letters: n columns, N visual positions of one image, H width.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import accumulate
from typing import NamedTuple

import torch
from torch import Tensor

from mmspec.seam import Features, Segment
from mmspec_torch.device_io import upload
from mmspec_torch.network.llama import Llama

PAD = -1
"""Id of padding, in columns where only a longer row has tokens."""
IMAGE = -2
"""Id of the columns of images."""


Projection = Callable[[Features], Tensor]
"""Function from an image's features to embeddings [N, H]."""


class PlacedImage(NamedTuple):
    """An image's embeddings [N, H] and their first column."""

    start: int
    rows: Tensor

    @property
    def stop(self) -> int:
        """The column after the image."""
        return self.start + len(self.rows)


@dataclass(slots=True)
class Row:
    """Tokens by column, and images.

    The owner knows how many columns are valid; appending removes the others first.
    """

    tokens: list[int] = field(default_factory=list)
    images: list[PlacedImage] = field(default_factory=list)

    def append(self, length: int, segment: Segment, project: Projection, padding: int = 0) -> None:
        """Write `padding` columns of padding, then a segment, from column `length` on."""
        images = [
            PlacedImage(start, project(features))
            for start, features in segment.images(length + padding)
        ]
        self.cut(length)
        self.tokens += [PAD] * padding + segment.token_ids(IMAGE)
        self.images += images

    def extend(self, length: int, tokens: list[int]) -> None:
        """Write text tokens from column `length` on."""
        self.cut(length)
        self.tokens += tokens

    def cut(self, length: int) -> None:
        """Remove the columns from `length` on."""
        del self.tokens[length:]
        if self.images and self.images[-1].stop > length:
            within = (image for image in self.images if image.start < length)
            self.images = [
                image._replace(rows=image.rows[: length - image.start]) for image in within
            ]

    def has_image(self, start: int, stop: int) -> bool:
        """Return whether an image has any of the columns `start` to `stop`."""
        return any(max(image.start, start) < min(image.stop, stop) for image in self.images)

    def lengths(self, columns: int) -> list[int]:
        """Return for each of the first `columns` the number of tokens up to it, without padding."""
        return list(accumulate(token != PAD for token in self.tokens[:columns]))


def embed(llama: Llama, row: Row, start: int, stop: int) -> Tensor:
    """Return the embeddings [n, H] of columns, images included; padding gets arbitrary ones."""
    ids = llama.known(row.tokens[start:stop])
    x = llama.embed(upload(ids, torch.int64, llama.device))
    for image in row.images:
        low, high = max(image.start, start), min(image.stop, stop)
        if low < high:
            x[low - start : high - start] = image.rows[low - image.start : high - image.start]
    return x
