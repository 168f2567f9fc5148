"""The memory that opening an image takes: large ones are decoded smaller, or refused by name."""

import struct
import subprocess
import sys
import zlib
from pathlib import Path

import numpy as np
import pillow_heif
import pytest
from PIL import Image
from test_images import refusal, saved

from mmspec.ground.errors import ImageError
from mmspec.prompt import images, rgb
from mmspec.prompt.file_kinds import enable_heif
from mmspec.prompt.images import decode_picture, open_picture, picture_from
from support import opening_process


def smooth(width: int, height: int, mode: str = "RGB") -> Image.Image:
    """Three ramps, in which a smaller scale shows the same colours."""
    x = (np.arange(width, dtype=np.uint32) * 255 // width).astype(np.uint8)[None, :]
    y = (np.arange(height, dtype=np.uint32) * 255 // height).astype(np.uint8)[:, None]
    ramps = np.broadcast_arrays(x, y, x // 2 + y // 2)
    return Image.fromarray(np.stack(ramps, -1)).convert(mode)


@pytest.mark.parametrize("scale", [1, 2, 4, 8])
def test_a_large_jpeg_is_decoded_at_the_first_scale_that_fits(tmp_path, monkeypatch, scale):
    original = smooth(333, 250)
    path = saved(tmp_path, original, "a.jpg")
    with Image.open(path) as image:
        allowed = images.needed_memory(image) / scale**2
    monkeypatch.setattr(images, "MAX_MEMORY", allowed)
    found = open_picture(path).image
    assert found.size == (-(-333 // scale), -(-250 // scale))
    difference = np.asarray(found, float) - np.asarray(original.resize(found.size), float)
    assert np.abs(difference).mean() < 3


def in_mode(mode: str) -> Image.Image:
    """A picture of 40 by 30 in any mode; the first rows of floats do not tell their range."""
    if mode in ("F", "I", "I;16"):
        values = np.arange(1200).reshape(30, 40) * {"F": 0.01, "I": 50, "I;16": 50}[mode]
        return Image.fromarray(values.astype({"F": "f4", "I": "i4", "I;16": "u2"}[mode]))
    image = smooth(40, 30, "RGBA")
    image.putalpha(smooth(40, 30).getchannel(0))
    return image.convert(mode)


@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "CMYK", "F", "I", "I;16"])
def test_a_picture_does_not_depend_on_the_bands_it_is_converted_in(mode, monkeypatch):
    image = in_mode(mode)
    if mode in ("L", "P"):
        image.info["transparency"] = 3
    whole = picture_from(image)
    monkeypatch.setattr(rgb, "BAND", 80)
    assert picture_from(image) == whole
    assert picture_from(image).image.tobytes() == whole.image.tobytes()


def test_what_takes_too_much_memory_is_refused_with_both_figures(tmp_path, monkeypatch):
    path = saved(tmp_path, Image.new("RGB", (300, 250)), "a.png")
    monkeypatch.setattr(images, "MAX_MEMORY", 600_000)
    assert open_picture(path)
    monkeypatch.setattr(images, "MAX_MEMORY", 599_999)
    assert "a.png: 300 x 250 pixels take 0.600000 MB to open, and 0.599999" in refusal(path)


def test_a_progressive_jpeg_is_decoded_at_no_smaller_scale(tmp_path, monkeypatch):
    path = saved(tmp_path, smooth(320, 200), "a.jpg", progressive=True)
    monkeypatch.setattr(images, "MAX_MEMORY", 320 * 200 * 14)
    assert open_picture(path).image.size == (320, 200)
    monkeypatch.setattr(images, "MAX_MEMORY", 320 * 200 * 14 - 1)
    assert "320 x 200 pixels take" in refusal(path)


def test_above_pillows_own_limit_a_jpeg_opens_and_others_are_refused(tmp_path, monkeypatch):
    bomb = bytearray(saved(tmp_path, smooth(2, 2), "bomb.png").read_bytes())
    bomb[16:24] = struct.pack(">II", 17_900, 10_000)
    bomb[29:33] = struct.pack(">I", zlib.crc32(bomb[12:29]))
    (tmp_path / "bomb.png").write_bytes(bomb)
    message = refusal(tmp_path / "bomb.png")
    assert "over 178 megapixels may take more to open, and 1.0 GB of memory is allowed" in message
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 1000)
    path = saved(tmp_path, smooth(320, 200), "a.jpg")
    assert open_picture(path) == decode_picture(path.read_bytes(), "a.jpg")
    path = saved(tmp_path, smooth(320, 200), "b.webp")
    with pytest.raises(ImageError, match=r"^b\.webp: over 178 megapixels"):
        decode_picture(path.read_bytes(), "b.webp")


FORMATS = {
    "a.png": {},
    "clear.png": {"mode": "RGBA"},
    "rotated.png": {"orientation": 6},
    "a.jpg": {},
    "progressive.jpg": {"progressive": True, "subsampling": 0},
    "a.gif": {"mode": "P"},
    "a.tif": {"compression": "tiff_lzw"},
    "floats.tif": {"mode": "F"},
    "a.avif": {"speed": 10},
    "a.heic": {},
    "a.webp": {},
}


def written(path: Path, size: int, mode: str = "RGB", orientation: int = 1, **options) -> Path:
    if path.suffix == ".heic":
        pillow_heif.from_pillow(smooth(size, size)).save(path)
        return path
    exif = Image.Exif()
    exif[0x0112] = orientation
    return saved(path.parent, smooth(size, size, mode), path.name, exif=exif, **options)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="the peak is read from /proc")
@pytest.mark.parametrize("name", FORMATS)
def test_opening_takes_about_what_is_estimated(tmp_path, name):
    small = written(tmp_path / f"small-{name}", 64, **FORMATS[name])
    large = written(tmp_path / name, 5000, **FORMATS[name])
    command = [sys.executable, opening_process.__file__, str(small), str(large)]
    run = subprocess.run(command, capture_output=True, text=True, check=True)
    width, height, peak = map(int, run.stdout.split())
    assert (width, height) == (5000, 5000)
    enable_heif(name)
    with Image.open(large) as image:
        assert peak < 1.15 * images.needed_memory(image)
