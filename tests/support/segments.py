"""Segments to and from flat ids, which is how transformers takes a prompt."""

from collections.abc import Sequence

from mmspec.decoding.contract import Features, Segment
from support import factory

IMAGE = factory.IMAGE_TOKEN_ID


def segment_of(
    token_ids: Sequence[int], images: Sequence[Features] = (), image_id: int = IMAGE
) -> Segment:
    """A segment from ids that hold `image_id` at every position of an image."""
    parts: list[Sequence[int] | Features] = []
    rest = list(token_ids)
    for image in images:
        start = rest.index(image_id)
        parts += [rest[:start], image]
        rest = rest[start + image.positions :]
    return Segment([*parts, rest])


def flat(segment: Segment) -> list[int]:
    """The ids that `segment_of` takes."""
    return segment.token_ids(IMAGE)


def features(segment: Segment) -> list[Features]:
    """Its images, in order."""
    return [image for _, image in segment.images(0)]
