"""Prompt tokens as embeddings, with images' projected features in their places."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import mlx.core as mx

from mmspec.seam import Features, Segment
from mmspec_mlx import host
from mmspec_mlx.llama import Llama

Projection = Callable[[Features], mx.array]


@dataclass(frozen=True, slots=True)
class Picture:
    """Projected features [N, H] of an image whose first position in the sequence is `start`."""

    start: int
    rows: mx.array

    @property
    def span(self) -> tuple[int, int]:
        """Its first position and the one after its last."""
        return self.start, self.start + self.rows.shape[0]

    def before(self, length: int) -> "Picture":
        """Return the part of it that lies in the first `length` positions."""
        return Picture(self.start, self.rows[: max(length - self.start, 0)])


Placed = tuple[list[int], list[Picture]]
"""Token ids and the images among them."""

Place = Callable[[Segment, int], Placed]
"""`place` for one model."""


def place(segment: Segment, offset: int, image_token_id: int | None, project: Projection) -> Placed:
    """Return a segment's token ids and the images in it, the sequence being `offset` long.

    Ids at image positions become 0: they are looked up in no table.  Without images an image
    token is text: a model may have said it.  Raises ValueError where the two do not match.
    """
    ids = list(segment.tokens)
    pictures: list[Picture] = []
    if not segment.features:
        return ids, pictures
    needed = sum(features.positions for features in segment.features)
    places = [at for at, token in enumerate(ids) if token == image_token_id]
    if len(places) != needed:
        raise ValueError(f"{len(places)} image tokens for images of {needed} positions")
    for features in segment.features:
        length, at = features.positions, places[0]
        if places[length - 1] != at + length - 1:
            raise ValueError(f"image tokens are split at {at}: {length} go in a row")
        pictures.append(Picture(offset + at, project(features)))
        ids[at : at + length] = [0] * length
        del places[:length]
    return ids, pictures


def embed(llama: Llama, ids: Sequence[int], pictures: Sequence[Picture], start: int) -> mx.array:
    """Return embeddings [n, H] of ids [n], the first of which is position `start`."""
    rows, end = llama.embedding.rows(host.ids(ids)), start + len(ids)
    for picture in pictures:
        first = max(picture.start, start)
        last = min(picture.start + picture.rows.shape[0], end)
        if first < last:
            part = picture.rows[first - picture.start : last - picture.start]
            rows[first - start : last - start] = part
    return rows
