"""Opens image files, upright and in RGB, within a limit on memory."""

import hashlib
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from io import BytesIO
from pathlib import Path
from typing import Any

from PIL import Image, UnidentifiedImageError
from PIL.JpegImagePlugin import JpegImageFile

from mmspec.ground.errors import ImageError
from mmspec.ground.input_files import expand_home, open_file
from mmspec.prompt.file_kinds import conversion, enable_heif, is_heif, other_kind
from mmspec.prompt.rgb import rgb_bands, upright

MAX_ASPECT = 500
"""Largest ratio of an image's long side to its short side.

An image is resized whole before it is cropped, so a longer one would need too much memory.
"""

# Raster formats decoded inside Pillow; others (EPS, for one) would start another program.
FORMATS = ("PNG", "JPEG", "WEBP", "GIF", "BMP", "PPM", "TIFF", "AVIF", "TGA")

READ = "PNG, JPEG, WebP, GIF, BMP, PPM, TIFF, AVIF, TGA and HEIC"
"""FORMATS and HEIF as people call them."""

HEAD = 64
"""Bytes at the beginning of a file that tell HEIF from other formats."""

# tests/core/test_image_memory.py compares these estimates with peaks of processes, with Pillow 13.
MAX_MEMORY = 1_000_000_000
"""Bytes that opening one image may take."""

MAX_FILE = MAX_MEMORY // 2
"""Bytes of an image's file at most: some decoders hold it twice before they name its size."""

KEPT = 4
"""Bytes of a picture's pixel: Pillow keeps RGB in four."""

SCALES = (1, 2, 4, 8)
"""Divisors of an image's size that JPEG decoders offer."""

# Bytes of a decoded pixel, by mode; four in any other.
_DECODED = {"1": 1, "L": 1, "P": 1, "I;16": 2, "I;16B": 2, "I;16L": 2}
# Bytes a pixel of decoders that hold the image several times over.
_DECODER = {"WEBP": 9, "AVIF": 6, "HEIF": 4, "TIFF": 2}
_WHOLE = ("WEBP", "AVIF", "HEIF")
"""Formats whose decoders hold the whole file."""
_COEFFICIENTS = 6
"""Bytes a pixel that decoding a progressive JPEG takes at any scale."""


@dataclass(frozen=True, slots=True)
class ClipPlace:
    """Where a moment stands in its clip; of an image all numbers are 0."""

    moment: int = 0
    """Number of the clip's moments before this one."""
    step: float = 0.0
    """Seconds from one moment to the next."""
    time: float = 0.0
    """Seconds from the film's begin."""
    frames: int = 0
    """Number of frames of the whole clip."""


@dataclass(frozen=True, slots=True)
class Picture:
    """An upright RGB image; two are equal if size and pixels are equal."""

    image: Image.Image = field(compare=False, repr=False)
    digest: str
    name: str = field(default="", compare=False)
    from_file: bool = field(default=False, compare=False)
    """True if `name` is the path of a file that was read."""

    frames: tuple["Picture", ...] = field(default=(), compare=False, repr=False)
    """The frames of a clip or of a moment; empty for an image."""
    clip_place: ClipPlace = field(default=ClipPlace(), compare=False, repr=False)

    @property
    def kind(self) -> str:
        """What people call it: "image" or "clip"."""
        return "clip" if self.frames else "image"

    @property
    def images(self) -> tuple[Image.Image, ...]:
        """The image; of a clip, its frames."""
        return tuple(frame.image for frame in self.frames) or (self.image,)

    @property
    def still(self) -> "Picture":
        """The picture itself; of a clip, its first frame."""
        return self.frames[0] if self.frames else self

    @property
    def shape(self) -> str:
        """Width and height, for people."""
        return f"{self.image.width}x{self.image.height}"

    @property
    def settings(self) -> dict[str, Any]:
        """How the frames of a clip are taken from its file, for JSON."""
        return {}

    @property
    def moments(self) -> tuple["Picture", ...]:
        """The picture itself; of a clip, its frames in twos, as Qwen's towers see them."""
        return (self,)

    def shown(self, most: int) -> tuple["Picture", ...]:  # noqa: ARG002
        """The picture itself; of a clip, about `most` of its frames."""
        return (self,)


def open_picture(path: str | Path) -> Picture:
    """Return the picture in the file at `path`; of an animation, the first frame.

    A JPEG that would take too much memory is decoded at 1/2, 1/4 or 1/8 of its size. Raises
    ImageError naming the file if it is missing, no image, damaged, takes too much at any scale or
    is a strip beyond MAX_ASPECT.
    """
    file, label, head = readable_file(path)
    return replace(_read(file, head, label, str(path)), from_file=True)


def readable_file(path: str | Path) -> tuple[Path, str, bytes]:
    """The regular file at `path`, its name for errors and its first bytes; else ImageError."""
    name, file = str(path), expand_home(path)
    label = name if name.isprintable() else repr(name)
    if not name:
        raise ImageError("an image without a name: give a path")
    if name.startswith(("http:/", "https:/")):
        raise ImageError(f"{name}: nothing is fetched; save the image and give its path")
    try:
        with open_file(file) as opened:
            head = opened.read(HEAD)
    except OSError as error:
        raise ImageError(f"{label}: cannot be read ({error.strerror})") from error
    if not head:
        raise ImageError(f"{label}: empty file")
    return file, label, head


def decode_picture(content: bytes, name: str) -> Picture:
    """The picture in an image file's bytes; raises ImageError, as `open_picture`."""
    return _read(BytesIO(content), content[:HEAD], name, name)


def _read(source: Path | BytesIO, head: bytes, label: str, name: str) -> Picture:
    formats: tuple[str, ...] = FORMATS
    if is_heif(head):
        enable_heif(label)
        formats = (*FORMATS, "HEIF")
    if other := other_kind(head, name):
        raise ImageError(f"{label}: {other}")
    file_bytes = _file_bytes(source, label)
    with named_errors(label, name), _opened(source, formats, label) as image:
        _check_size(image, file_bytes, label)
        image.load()
        turned = upright(image)
        if turned is not image:
            image.close()  # frees its pixels
        return _picture(turned, name)


def _file_bytes(source: Path | BytesIO, label: str) -> int:
    """The size of an image's file; raises ImageError if reading it takes too much memory."""
    size = source.getbuffer().nbytes if isinstance(source, BytesIO) else source.stat().st_size
    if size > MAX_FILE:
        raise _too_large(label, f"a file of {size / 1e9:.1f} GB may take twice that to open")
    return size


@contextmanager
def named_errors(label: str, name: str, kind: str = "image") -> Iterator[None]:
    """Context in which whatever a decoder raises becomes an ImageError."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # large images are allowed, metadata are not used
            yield
    except ImageError:
        raise
    except UnidentifiedImageError as error:
        what = conversion(name) or f"not an image that can be read: {READ} are"
        raise ImageError(f"{label}: {what}") from error
    except Exception as error:  # damaged data makes decoders raise anything
        reason = " ".join(str(error).split()) or type(error).__name__
        raise ImageError(f"{label}: damaged or unsupported {kind} ({reason})") from error


def _opened(source: Path | BytesIO, formats: tuple[str, ...], label: str) -> Image.Image:
    try:
        return Image.open(source, formats=formats)
    except Image.DecompressionBombError as error:  # Pillow's limit: 178 megapixels of any kind
        if isinstance(source, BytesIO):
            source.seek(0)
        try:
            return JpegImageFile(source)  # which a smaller scale may fit into memory
        except SyntaxError:
            raise _too_large(label, "over 178 megapixels may take more to open") from error


def set_smaller_scale(image: Image.Image, file_bytes: int) -> bool:
    """Let `image`, not yet loaded, be decoded at the first scale that fits into MAX_MEMORY.

    Only JPEG offers smaller ones. Returns False if none fits.
    """
    for scale in SCALES if isinstance(image, JpegImageFile) else SCALES[:1]:
        if needed_memory(image, file_bytes, scale) <= MAX_MEMORY:
            image.draft(None, (image.width // scale, image.height // scale))
            return True
    return False


def needed_memory(image: Image.Image, file_bytes: int, scale: int = 1) -> int:
    """Bytes that opening `image` takes at 1/scale of its size, about."""
    pixels = image.width * image.height
    each = _DECODED.get(image.mode, 4) + _DECODER.get(image.format or "", 0) + KEPT
    whole = _COEFFICIENTS if "progressive" in image.info else 0
    held = file_bytes if image.format in _WHOLE else 0
    return pixels * each // scale**2 + pixels * whole + held


def _check_size(image: Image.Image, file_bytes: int, label: str) -> None:
    """Refuse strips, and images that need too much memory at any scale, before decoding."""
    require_shape(*image.size, label)
    if not set_smaller_scale(image, file_bytes):
        needed = needed_memory(image, file_bytes) / 1e9
        width, height = image.size
        raise _too_large(label, f"{width} x {height} pixels take {needed:.1f} GB to open")


def require_shape(width: int, height: int, label: str) -> None:
    """Raise ImageError for an image without pixels, and for a strip beyond MAX_ASPECT."""
    if not width or not height:
        raise ImageError(f"{label}: {width} x {height} pixels; give one that has some")
    if max(width, height) > MAX_ASPECT * min(width, height):
        raise ImageError(f"{label}: one side is over {MAX_ASPECT} times the other; crop it first")


def _too_large(label: str, needed: str) -> ImageError:
    allowed = f"{MAX_MEMORY / 1e9:.1f} GB of memory is allowed"
    return ImageError(f"{label}: {needed}, and {allowed}; make it smaller first")


def picture_from(image: Image.Image, name: str = "") -> Picture:
    """The picture of a PIL image: rotated upright by EXIF, transparency over white.

    Raises ImageError for an image without pixels, for a strip beyond MAX_ASPECT, and for one that
    is damaged, closed or of a mode that has no colours.
    """
    label = name or "an image"
    require_shape(*image.size, label)
    with named_errors(label, ""):
        image.load()
        return _picture(upright(image), name)


def _picture(image: Image.Image, name: str) -> Picture:
    rgb = Image.new("RGB", image.size)
    content = hashlib.sha256(f"{rgb.width}x{rgb.height}:".encode())
    for top, band in rgb_bands(image):
        rgb.paste(band, (0, top))
        content.update(band.tobytes())
    return Picture(rgb, content.hexdigest(), name)
