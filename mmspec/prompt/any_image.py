"""Takes images and clips as callers give them: pictures, PIL images or paths."""

from collections.abc import Iterable
from pathlib import Path

from PIL import Image

from mmspec.ground.errors import ImageError
from mmspec.prompt.clips import EVENLY, FrameSampling
from mmspec.prompt.file_kinds import CLIP_SUFFIXES
from mmspec.prompt.film import open_clip
from mmspec.prompt.images import Picture, open_picture, picture_from

AnyImage = Picture | Image.Image | str | Path
"""A picture or clip, a PIL image or a path."""


def pictures_of(images: object) -> tuple[Picture, ...]:
    """The pictures of one image or several; opens those that are given by path.

    Raises ImageError for a file that cannot be used, and for anything that is no image.
    """
    if isinstance(images, Iterable) and not isinstance(images, AnyImage | bytes):
        return tuple(map(_picture_of, images))
    return (_picture_of(images),)


def _picture_of(image: object) -> Picture:
    if isinstance(image, Picture):
        return image
    if isinstance(image, Image.Image):
        return picture_from(image)
    if isinstance(image, str | Path):
        return open_visual(image)
    raise ImageError(
        f"an image given as {type(image).__name__}: give a path, a PIL image or a Picture"
    )


def open_visual(path: str | Path, sampling: FrameSampling = EVENLY) -> Picture:
    """The picture or clip in a file, by its suffix; raises ImageError naming the file."""
    if str(path).lower().endswith(CLIP_SUFFIXES):
        return open_clip(path, sampling.fps, sampling.max_frames)
    return open_picture(path)
