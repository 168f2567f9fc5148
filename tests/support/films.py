"""Films whose frames can be told apart by their colours, written with PyAV."""

import struct
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path

import numpy as np
from PIL import Image

LOSSLESS = {".mkv": ("ffv1", "bgr0"), ".avi": ("ffv1", "bgr0")}
"""Codec and pixel format that keep drawings as they are, by suffix; PNG for any other."""


def drawing(number: int, size: tuple[int, int] = (64, 48)) -> Image.Image:
    """Frame `number`: noise of its own below a grey that counts."""
    width, height = size
    values = np.random.default_rng(number).integers(0, 256, (height, width, 3))
    values[: height // 2] = number % 256
    return Image.fromarray(values.astype(np.uint8))


def film(
    path: Path,
    frames: int = 20,
    rate: int | Fraction = 10,
    size: tuple[int, int] = (64, 48),
    codec: str = "",
    gop: int = 12,
    aspect: Fraction | None = None,
    times: Sequence[int] = (),
) -> Path:
    """Write drawings 0, 1, … to `path`, whose suffix names the container; lossless by default.

    aspect: a pixel's width by its height.  times: when each frame is shown, in milliseconds.
    """
    pixels = "yuv420p"
    if not codec:
        codec, pixels = LOSSLESS.get(path.suffix, ("png", "rgb24"))
    import av

    with av.open(str(path), "w") as container:
        stream = container.add_stream(codec, rate=rate)
        stream.width, stream.height, stream.pix_fmt = *size, pixels
        stream.gop_size = gop
        if aspect:
            stream.codec_context.sample_aspect_ratio = aspect
        if times:
            stream.codec_context.time_base = Fraction(1, 1000)
        for number in range(frames):
            array = np.asarray(drawing(number, size))
            frame = av.VideoFrame.from_ndarray(array, format="rgb24")
            if times:
                frame.pts, frame.time_base = times[number], Fraction(1, 1000)
            container.mux(stream.encode(frame))
        container.mux(stream.encode())
    return path


def turned(path: Path, matrix: tuple[int, int, int, int] = (0, 1, -1, 0)) -> Path:
    """Let an MP4's display matrix show (x, y) at (a x + c y, b x + d y); matrix: a, b, c, d.

    The usual one turns frames a quarter clockwise, as upright phones record.
    """
    a, b, c, d = (number << 16 for number in matrix)
    content = bytearray(path.read_bytes())
    identity = struct.pack(">9i", 1 << 16, 0, 0, 0, 1 << 16, 0, 0, 0, 1 << 30)
    shown = struct.pack(">9i", a, b, 0, c, d, 0, 0, 0, 1 << 30)
    place = content.index(identity, content.index(b"tkhd"))
    content[place : place + 36] = shown
    path.write_bytes(content)
    return path


def sound(path: Path) -> Path:
    """Write a file with a tone and no pictures."""
    import av

    with av.open(str(path), "w") as container:
        stream = container.add_stream("aac", rate=8000)
        frame = av.AudioFrame.from_ndarray(np.zeros((1, 1024), np.float32), "fltp", "mono")
        frame.sample_rate = 8000
        container.mux(stream.encode(frame))
        container.mux(stream.encode())
    return path
