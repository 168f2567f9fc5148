"""Opens films with PyAV: frames are decoded one after another, within limits on memory and time.

Only frames that are taken stay. Containers that may name other files are not read.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from PIL import Image

from mmspec.ground.errors import ImageError
from mmspec.prompt import images
from mmspec.prompt.clips import FPS, Clip, FrameSampling, clip_of
from mmspec.prompt.images import Picture, named_errors, picture_from, readable_file

if TYPE_CHECKING:
    from av.container import InputContainer
    from av.video.frame import VideoFrame
    from av.video.stream import VideoStream
    from numpy.typing import NDArray

OPTIONS = {"format_whitelist": "mov,matroska,avi", "protocol_whitelist": "file"}
MAX_BYTES = 4 * 10**9
"""Bytes of a film's file at most; all are read to count its frames."""
MAX_PIXELS = 36_000_000
"""Pixels of a frame at most: 8K has 33 million."""
MAX_FRAMES = 2_000_000
"""Frames of a film at most: nine hours at 60 a second."""
MAX_DECODED_PIXELS = 2 * 10**11
"""Pixels that are decoded at most: 100,000 frames of full HD, some minutes of work."""
MAX_SECONDS = 24 * 3600
"""Seconds of a film at most, which bounds the rotary positions of its frames."""
MAX_WAIT = 10.0
"""Seconds of reading without a frame, after which a film is refused; Ctrl-C waits no longer."""
SKIP = 250
"""Frames in a row that are not taken, from which on the decoder goes to a later key frame."""
EVEN = 0.002
"""Most seconds between a frame's time and an even one; Matroska rounds to milliseconds."""
UNKNOWN_RATE = 24.0
"""Frames a second of a film that does not name them, as transformers takes it."""


def open_clip(path: str | Path, fps: float = FPS, max_frames: int | None = None) -> Clip:
    """The clip in the film at `path`: evenly `fps` frames a second, at most `max_frames` (64).

    Raises ImageError naming the file if it is missing, no film, damaged or too large, and if PyAV
    is not installed.
    """
    sampling = FrameSampling(fps, max_frames)
    file, label, _ = readable_file(path)
    if file.stat().st_size > MAX_BYTES:
        raise ImageError(f"{label}: a film of over {MAX_BYTES // 10**9} GB; cut it first")
    with named_errors(label, "", "clip"), _open_film(file, label) as container:
        return _Film(container, label, sampling).clip(str(path))


@contextmanager
def _open_film(file: Path, label: str) -> Iterator["InputContainer"]:
    """Context with an open film; a ValueError says why it cannot be read on."""
    try:
        import av
    except ImportError as error:
        reason = 'clips need a decoder: pip install "mmspec[video]"'
        raise ImageError(f"{label}: {reason}") from error
    try:
        with av.open(str(file.absolute()), options=OPTIONS, timeout=MAX_WAIT) as container:
            yield container
    except av.error.ExitError as error:
        raise ValueError(f"no frame in {MAX_WAIT:g} s of reading") from error
    except av.FFmpegError as error:  # whose own text repeats the path
        raise ValueError(error.strerror) from error
    except AttributeError as error:  # of a stream without a decoder
        raise ValueError("its codec is not known") from error


class _Packets(NamedTuple):
    """The film's packets, each of which is a frame."""

    total: int
    times: list[int]
    """When each frame is shown, ascending; empty if a packet does not say so."""
    keys: list[int]
    """Numbers of the key frames, ascending."""

    def key(self, number: int) -> int:
        """The last key frame up to the frame `number`; the first frame if none is known."""
        after = bisect_right(self.keys, number)
        return self.keys[after - 1] if after else 0

    def number(self, frame: "VideoFrame", place: int) -> int:
        """A frame's number by its time; `place` if that is not known."""
        if not self.times or frame.pts is None:
            return place
        return bisect_left(self.times, frame.pts)

    def seconds(self, base: Fraction, rate: float) -> "NDArray[np.float64]":
        """When each frame is shown, from the first on; empty if it is not known or evenly so."""
        times = (np.array(self.times, float) - min(self.times, default=0)) * float(base)
        even = np.abs(times - np.arange(len(times)) / rate).max(initial=0) < EVEN
        return times[:0] if even or not times[-1] else times


class _Film:
    """An open film, named `label` in errors."""

    def __init__(self, container: "InputContainer", label: str, sampling: FrameSampling) -> None:
        self._container, self._label, self._sampling = container, label, sampling
        self._pixels = 0  # decoded so far
        self._stream = self._open_stream()
        self._packets = self._read_packets()

    def _error(self, reason: str) -> ImageError:
        return ImageError(f"{self._label}: {reason}")

    def clip(self, name: str) -> Clip:
        """Decode the frames that are taken."""
        stream, packets = self._stream, self._packets
        rate = float(stream.average_rate or UNKNOWN_RATE)
        seconds = packets.seconds(stream.time_base or Fraction(1), rate)
        rate = float((packets.total - 1) / seconds[-1]) if len(seconds) else rate
        if packets.total > MAX_SECONDS * rate:
            raise self._error("it lasts over 24 hours; cut it first")
        numbers = self._sampling.frames(packets.total, rate)
        places = list[float](numbers)
        if len(seconds):
            numbers, times = _at_even_times(seconds, len(numbers))
            places = [time * rate for time in times]
        size = self._size(len(numbers))
        self._container.seek(0)
        frames = [_picture(frame, size, name) for frame in self._take(numbers)]
        if not frames:
            raise self._error("damaged or unsupported clip (no frame can be decoded)")
        places = places[: len(frames)]
        return clip_of(frames, places, packets.total, rate, self._sampling, name)

    def _open_stream(self) -> "VideoStream":
        if not self._container.streams.video:
            raise self._error("it has no pictures")
        stream = self._container.streams.video[0]
        for width, height in ((stream.width, stream.height), _shape(stream)):
            if not 0 < width * height <= MAX_PIXELS:
                limit = f"1 to {MAX_PIXELS // 10**6} million are allowed"
                raise self._error(f"frames of {width} x {height} pixels; {limit}")
            images.require_shape(width, height, self._label)
        stream.thread_type = "AUTO"
        stream.codec_context.options = {"max_pixels": str(MAX_PIXELS)}
        return stream

    def _read_packets(self) -> _Packets:
        times, keys = list[int | None](), list[int | None]()
        for packet in self._container.demux(self._stream):
            if not packet.size or packet.is_discard:  # the end, and what an edit has cut
                continue
            times.append(packet.pts)
            keys += [packet.pts] if packet.is_keyframe else []
            if len(times) > MAX_FRAMES:
                raise self._error(f"over {MAX_FRAMES:,} frames; cut it first")
        if not times:
            raise self._error("damaged or unsupported clip (it has no frames)")
        starts = sorted(time for time in times if time is not None)
        if len(starts) < len(times):
            return _Packets(len(times), [], [])
        numbers = sorted(bisect_left(starts, key) for key in keys if key)
        return _Packets(len(times), starts, numbers)

    def _size(self, count: int) -> tuple[int, int]:
        """The film's width and height, or a part with which `count` frames fit into memory."""
        width, height = _shape(self._stream)
        for scale in images.SCALES:
            size = max(width // scale, 1), max(height // scale, 1)
            if count * size[0] * size[1] * images.RGB_PIXEL_BYTES <= images.MAX_MEMORY:
                return size
        raise self._error(f"{count} frames of this size are too many; take fewer (`max_frames`)")

    def _take(self, numbers: Sequence[int]) -> Iterator["VideoFrame"]:
        """Yield the frames with these numbers; fewer if the rest cannot be decoded."""
        packets, frames, at, frame = self._packets, self._decode(), -1, None
        for number in numbers:
            if packets.key(number) - at > SKIP:
                self._container.seek(packets.times[packets.key(number)], stream=self._stream)
                frames = self._decode()
            while at < number:
                at, frame = next(frames, (packets.total, None))
            if frame is None:
                return
            yield frame

    def _decode(self) -> Iterator[tuple[int, "VideoFrame"]]:
        """Yield the frames from where the container is, each with its number."""
        for place, frame in enumerate(self._container.decode(self._stream)):
            self._pixels += frame.width * frame.height
            if self._pixels > MAX_DECODED_PIXELS:
                raise self._error("it takes too long to decode; cut it first")
            yield self._packets.number(frame, place), frame


def _shape(stream: "VideoStream") -> tuple[int, int]:
    """Width and height in square pixels: one side grows, as HTML says that it is played."""
    ratio = float(stream.sample_aspect_ratio or 1)
    return round(stream.width * max(ratio, 1.0)), round(stream.height / min(ratio, 1.0))


def _at_even_times(seconds: "NDArray[np.float64]", count: int) -> tuple[list[int], list[float]]:
    """The frames that are shown at `count` even times, and since when.

    A frame that is shown at several of them is repeated with the later times.
    """
    evenly = np.linspace(0, seconds[-1], count)
    starts = seconds[np.searchsorted(seconds, evenly, "right") - 1]
    numbers = np.searchsorted(seconds, starts)
    times = np.where(np.diff(numbers, prepend=-1) > 0, starts, evenly)
    return numbers.tolist(), times.tolist()


def _picture(frame: "VideoFrame", size: tuple[int, int], name: str) -> Picture:
    """An upright picture of a frame, resized to `size`."""
    width, height = size
    image = Image.fromarray(frame.to_ndarray(format="rgb24", width=width, height=height))
    matrix: Any = frame.side_data.get("DISPLAYMATRIX")
    if matrix is not None:
        a, b, _, c, d = np.sign(np.frombuffer(matrix, np.int32)[:5]).tolist()
        turn = _TURNS.get((a, b, c, d))
        image = image if turn is None else image.transpose(turn)
    return picture_from(image, name)


_TURNS = {
    (-1, 0, 0, 1): Image.Transpose.FLIP_LEFT_RIGHT,
    (-1, 0, 0, -1): Image.Transpose.ROTATE_180,
    (1, 0, 0, -1): Image.Transpose.FLIP_TOP_BOTTOM,
    (0, 1, 1, 0): Image.Transpose.TRANSPOSE,
    (0, 1, -1, 0): Image.Transpose.ROTATE_270,
    (0, -1, -1, 0): Image.Transpose.TRANSVERSE,
    (0, -1, 1, 0): Image.Transpose.ROTATE_90,
}
"""How players show a film, by the signs of a, b, c, d: (x, y) goes to (a x + c y, b x + d y)."""
