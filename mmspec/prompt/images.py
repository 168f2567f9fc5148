"""Opens image files, upright and in RGB, within a limit on memory."""

import hashlib
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from io import BytesIO
from math import inf
from pathlib import Path

from PIL import Image, UnidentifiedImageError
from PIL.JpegImagePlugin import JpegImageFile

from mmspec.ground.errors import ImageError
from mmspec.ground.input_files import expand_home, open_file
from mmspec.ground.sizes import distinct_amounts
from mmspec.prompt.file_kinds import conversion, enable_heif, is_heif, other_kind
from mmspec.prompt.rgb import rgb_bands, upright

MAX_ASPECT = 500
"""Largest ratio of an image's long side to its short side.

An image is resized whole before it is cropped, so a longer one would need too much memory.
"""

# Raster formats decoded inside Pillow; others (EPS, for one) would start another program.
FORMATS = ("PNG", "JPEG", "WEBP", "GIF", "BMP", "PPM", "TIFF", "AVIF", "TGA")

FORMAT_NAMES = "PNG, JPEG, WebP, GIF, BMP, PPM, TIFF, AVIF, TGA and HEIC"
"""FORMATS and HEIF as people call them."""

HEAD = 64
"""Bytes at the beginning of a file that tell HEIF from other formats."""

# tests/core/test_image_memory.py compares these estimates with peaks of processes, with Pillow 13.
MAX_MEMORY = 1_000_000_000
"""Bytes that opening one image may take."""

MAX_FILE = MAX_MEMORY // 2
"""Bytes of an image's file at most: some decoders hold it twice before they name its size."""

RGB_PIXEL_BYTES = 4
"""Bytes of a picture's pixel: Pillow keeps RGB in four."""

SCALES = (1, 2, 4, 8)
"""Divisors of an image's size that JPEG decoders offer."""

PIXEL_BYTES = {"WEBP": 17, "AVIF": 14, "HEIF": 12, "TIFF": 10}
"""Bytes that opening an image takes for each pixel, by format; 8 in any other."""
PROGRESSIVE = 14
"""The same of a progressive JPEG, of which a smaller scale takes nearly as many."""


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
    file_bytes: int = field(default=0, compare=False, repr=False)
    """Bytes of the file whose content was decoded, such as a request's; 0 for other pictures."""

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
    def shape(self) -> str:
        """Width and height, for people."""
        return f"{self.image.width}x{self.image.height}"

    @property
    def moments(self) -> tuple["Picture", ...]:
        """The picture itself; of a clip, its frames in twos, as Qwen's towers see them."""
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
    if not isinstance(path, str | Path):
        raise ImageError(f"a path given as {type(path).__name__}: give a text or a Path")
    name, file = str(path), expand_home(path)
    label = name if name.isprintable() else repr(name)
    if not name:
        raise ImageError("an image without a name: give a path")
    if name.startswith(("http:/", "https:/")):
        raise ImageError(f"{name}: nothing is fetched; save the image and give its path")
    try:
        with open_file(file) as stream:
            head = stream.read(HEAD)
    except OSError as error:
        raise ImageError(f"{label}: cannot be read ({error.strerror})") from error
    if not head:
        raise ImageError(f"{label}: empty file")
    return file, label, head


def decode_picture(content: bytes, name: str) -> Picture:
    """The picture in an image file's bytes; raises ImageError, as `open_picture`."""
    picture = _read(BytesIO(content), content[:HEAD], name, name)
    return replace(picture, file_bytes=len(content))


def _read(source: Path | BytesIO, head: bytes, label: str, name: str) -> Picture:
    formats: tuple[str, ...] = FORMATS
    if is_heif(head):
        enable_heif(label)
        formats = (*FORMATS, "HEIF")
    if kind := other_kind(head, name):
        raise ImageError(f"{label}: {kind}")
    size = source.getbuffer().nbytes if isinstance(source, BytesIO) else source.stat().st_size
    if size > MAX_FILE:
        raise _too_large(label, f"a file of {size:,} bytes may take {{}} to open", 2 * size)
    with named_errors(label, name), _open_image(source, formats, label) as image:
        _check_size(image, label)
        image.load()
        upright_image = upright(image)
        if upright_image is not image:
            image.close()  # frees its pixels
        return _picture(upright_image, name)


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
        what = conversion(name) or f"not an image that can be read: {FORMAT_NAMES} are"
        raise ImageError(f"{label}: {what}") from error
    except Exception as error:  # damaged data makes decoders raise anything
        reason = " ".join(str(error).split()) or type(error).__name__
        raise ImageError(f"{label}: damaged or unsupported {kind} ({reason})") from error


def _open_image(source: Path | BytesIO, formats: tuple[str, ...], label: str) -> Image.Image:
    try:
        return Image.open(source, formats=formats)
    except Image.DecompressionBombError as error:  # Pillow's limit: 178 megapixels of any kind
        if isinstance(source, BytesIO):
            source.seek(0)
        try:
            return JpegImageFile(source)  # which a smaller scale may fit into memory
        except SyntaxError:
            raise _too_large(label, "over 178 megapixels may take more to open", inf) from error


def needed_memory(image: Image.Image) -> int:
    """Bytes that opening `image` takes at its full size, about."""
    kind = image.format or ""
    pixel_bytes = PROGRESSIVE if "progressive" in image.info else PIXEL_BYTES.get(kind, 8)
    return image.width * image.height * pixel_bytes


def _check_size(image: Image.Image, label: str) -> None:
    """Refuse strips and what needs too much memory; a large JPEG will be decoded smaller."""
    require_shape(*image.size, label)
    memory, (width, height) = needed_memory(image), image.size
    scalable = isinstance(image, JpegImageFile) and "progressive" not in image.info
    for scale in SCALES if scalable else SCALES[:1]:
        if memory <= MAX_MEMORY * scale**2:
            image.draft(None, (width // scale, height // scale))
            return
    raise _too_large(label, f"{width} x {height} pixels take {{}} to open", memory)


def require_shape(width: int, height: int, label: str) -> None:
    """Raise ImageError for an image without pixels, and for a strip beyond MAX_ASPECT."""
    if not width or not height:
        raise ImageError(f"{label}: {width} x {height} pixels; give one that has some")
    if max(width, height) > MAX_ASPECT * min(width, height):
        raise ImageError(f"{label}: one side is over {MAX_ASPECT} times the other; crop it first")


def _too_large(label: str, what: str, memory: float) -> ImageError:
    amount, limit = distinct_amounts(memory, MAX_MEMORY)
    reason = f"{what.format(amount)}, and {limit} of memory is allowed"
    return ImageError(f"{label}: {reason}; make it smaller first")


def picture_from(image: Image.Image, name: str = "") -> Picture:
    """The picture of a PIL image: rotated upright by EXIF, transparency over white.

    Raises ImageError for an image without pixels, for a strip beyond MAX_ASPECT, and for one that
    is damaged, closed or of a mode that has no colours.
    """
    if not isinstance(image, Image.Image):
        got = type(image).__name__
        raise ImageError(f"an image given as {got}: give a PIL image; open_picture takes a path")
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
