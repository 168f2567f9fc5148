"""Segments to and from flat ids, which is how transformers takes a prompt."""

from collections.abc import Sequence

from mmspec.seam import Features, Segment
from support import factory

IMAGE = factory.IMAGE_TOKEN_ID


def segment_of(token_ids: Sequence[int], images: Sequence[Features] = ()) -> Segment:
    """A segment from ids that hold IMAGE at every position of an image."""
    parts: list[Sequence[int] | Features] = []
    rest = list(token_ids)
    for image in images:
        start = rest.index(IMAGE)
        parts += [rest[:start], image]
        rest = rest[start + image.positions :]
    return Segment([*parts, rest])


def flat(segment: Segment) -> list[int]:
    """The ids that `segment_of` takes."""
    return segment.token_ids(IMAGE)


def features(segment: Segment) -> list[Features]:
    """Its images, in order."""
    return [image for _, image in segment.images(0)]
