"""Kinds of files by suffix: images, clips, and what to do with other pictures."""

from pathlib import Path

from PIL import Image

from mmspec.ground.errors import ImageError

HEIF_SUFFIXES = (".heic", ".heif", ".hif")

IMAGE_SUFFIXES = (
    *(".apng", ".avif", ".bmp", ".dib", ".gif", ".jfif", ".jif", ".jpe", ".jpeg", ".jpg", ".mpo"),
    *(".pbm", ".pgm", ".png", ".ppm", ".tga", ".tif", ".tiff", ".webp", *HEIF_SUFFIXES),
)
"""Suffixes of files that `open_picture` reads."""

CLIP_SUFFIXES = (".avi", ".m4v", ".mkv", ".mov", ".mp4", ".webm")
"""Suffixes of films, which `open_clip` reads."""

VISUAL_SUFFIXES = IMAGE_SUFFIXES + CLIP_SUFFIXES
"""Suffixes of all that models are shown."""

_DRAWING = "a drawing: export it as PNG, such as with rsvg-convert -o drawing.png FILE.svg"
_DOCUMENT = "a document: export the page that you mean as PNG"
_RAW = "a camera's raw data: export it as JPEG"
_FILM = "a clip where an image is needed: take a frame, as with ffmpeg -i FILE -frames:v 1 a.png"
UNNAMED_FILM = f"a clip: give it as a file that ends in {', '.join(CLIP_SUFFIXES)}"
"""What a film is whose name does not say so."""
_JPEG_2000 = "JPEG 2000: convert it, such as with magick FILE.jp2 image.png"

CONVERSIONS = {
    ".pdf": "a PDF: convert a page, such as with pdftoppm -png -r 150 -f 1 -l 1 FILE.pdf page",
    **dict.fromkeys((".svg", ".svgz", ".eps", ".ps", ".ai"), _DRAWING),
    **dict.fromkeys((".doc", ".docx", ".odt", ".odp", ".pages", ".key"), _DOCUMENT),
    **dict.fromkeys((".ppt", ".pptx", ".xls", ".xlsx", ".html", ".htm", ".psd", ".xcf"), _DOCUMENT),
    **dict.fromkeys((".arw", ".cr2", ".cr3", ".dng", ".nef", ".orf", ".raf", ".rw2"), _RAW),
    **dict.fromkeys((".jp2", ".j2k", ".jpf", ".jpx"), _JPEG_2000),
    **dict.fromkeys(CLIP_SUFFIXES, _FILM),
}
"""What a file is and how to make an image of it, by suffix, for kinds that are not read."""


def conversion(name: str) -> str | None:
    """What the file called `name` is and how to make an image of it; None for other kinds."""
    return CONVERSIONS.get(Path(name).suffix.lower())


def is_heif(head: bytes) -> bool:
    """True if a file that begins with `head`, its first 64 bytes, is HEIF, as phones write it."""
    return head[4:8] == b"ftyp" and any(brand in head[8:] for brand in (b"heic", b"heix", b"hevc"))


def is_film(head: bytes) -> bool:
    """True if a file that begins with `head` is a film of a kind that `open_clip` reads."""
    mp4 = head[4:8] == b"ftyp" and head[8:11] in (b"iso", b"mp4", b"M4V", b"qt ", b"avc")
    return mp4 or head[:4] == b"\x1aE\xdf\xa3" or (head[:4], head[8:12]) == (b"RIFF", b"AVI ")


def other_kind(head: bytes, name: str) -> str | None:
    """What a film or PDF called `name` is, whose name may not say so; None for other content."""
    if is_film(head):
        return conversion(name) or UNNAMED_FILM
    return (conversion(name) or CONVERSIONS[".pdf"]) if head.startswith(b"%PDF-") else None


def enable_heif(label: str) -> None:
    """Let Pillow read HEIF; raises ImageError naming the file if that is not installed."""
    try:
        from pillow_heif import register_heif_opener
    except ImportError as error:
        raise ImageError(
            f'{label}: HEIC needs a decoder: pip install "mmspec[heic]", or save it as JPEG'
        ) from error
    if "HEIF" not in Image.OPEN:
        register_heif_opener()
