"""Clips: frames of a film, which of them are taken, and how models see them."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from numbers import Integral, Real

import numpy as np

from mmspec.ground.errors import UsageError
from mmspec.prompt.images import ClipPlace, Picture

FPS = 2.0
"""Frames a second that are taken, unless another number is named."""
LEAST_FRAMES = 4
"""Frames that are taken of a short film, if it has as many and no lower limit is named."""
MOST_FRAMES = 64
"""Frames of a clip at most, unless another limit is named."""
ALLOWED_FRAMES, ALLOWED_FPS = 768, 1000
FRAMES_OF_A_MOMENT = 2
"""Frames that Qwen's towers see as one image."""


@dataclass(frozen=True, slots=True)
class FrameSampling:
    """Which frames of a film are taken: evenly `fps` a second, at most `max_frames`.

    Raises UsageError for numbers out of range.
    """

    fps: float = FPS
    max_frames: int | None = None
    """None takes at most MOST_FRAMES; a family that shows frames as images then shows fewer."""

    def __post_init__(self) -> None:
        fps, most = self.fps, self.max_frames
        if not (isinstance(fps, Real) and 0 < fps <= ALLOWED_FPS):
            raise UsageError(f"`fps={fps!r}`: give a number above 0 and at most {ALLOWED_FPS}")
        if not (most is None or (isinstance(most, Integral) and 1 <= most <= ALLOWED_FRAMES)):
            raise UsageError(f"`max_frames={most!r}`: give a number from 1 to {ALLOWED_FRAMES}")
        object.__setattr__(self, "fps", float(fps))  # JSON takes no Fraction and no numpy number
        object.__setattr__(self, "max_frames", most and int(most))

    def frames(self, total: int, rate: float) -> list[int]:
        """The numbers of the frames that are taken of `total`, shown at `rate` a second.

        The first and the last are among them, as in transformers' processor of Qwen3-VL.
        """
        count = max(int(total / rate * self.fps), LEAST_FRAMES)
        return spread(total, min(count, self.max_frames or MOST_FRAMES, total))


EVENLY = FrameSampling()
"""The sampling unless another is named."""


def spread(total: int, count: int) -> list[int]:
    """`count` numbers below `total`, evenly from the first to the last."""
    numbers: list[int] = np.linspace(0, total - 1, count).round().astype(int).tolist()
    return numbers


@dataclass(frozen=True, slots=True)
class Clip(Picture):
    """Frames of a film; `image` is the first of them.

    Two are equal if frames, times and sampling are: the sampling decides how many are shown.
    """

    numbers: tuple[float, ...] = field(default=(), compare=False, repr=False)
    """Each frame's place in the film, by its time if the rate varies: seconds times `rate`."""
    total: int = field(default=0, compare=False)
    """Number of the film's frames."""
    rate: float = field(default=1.0, compare=False)
    """The film's frames a second, on average."""
    sampling: FrameSampling = EVENLY

    @property
    def shape(self) -> str:
        """Width, height and number of frames, for people."""
        width, height = self.image.size
        return f"{width}x{height}, {len(self.frames)} frames of {self.total / self.rate:.1f} s"

    @property
    def moments(self) -> tuple[Picture, ...]:
        """The frames in twos, each seen as one image; the last may have one."""
        size, count = FRAMES_OF_A_MOMENT, len(self.frames)
        step = size / (count / self.total * self.rate)
        moments = list[Picture]()
        for start in range(0, count, size):
            frames, numbers = self.frames[start : start + size], self.numbers[start : start + size]
            time = (numbers[0] / self.rate + numbers[-1] / self.rate) / 2
            place = ClipPlace(start // size, step, time, count)
            image, digest = frames[0].image, f"{self.digest} {start}"
            moments.append(Picture(image, digest, self.name, frames=frames, clip_place=place))
        return tuple(moments)

    def as_images(self, most: int) -> tuple[Picture, ...]:
        """Evenly at most `most` frames as images, or all if their number was named."""
        count = len(self.frames) if self.sampling.max_frames else min(most, len(self.frames))
        return tuple(self.frames[number] for number in spread(len(self.frames), count))


def clip_of(
    frames: Sequence[Picture],
    numbers: Sequence[float],
    total: int,
    rate: float,
    sampling: FrameSampling = EVENLY,
    name: str = "",
) -> Clip:
    """The clip of `frames`, which have these numbers among the `total` of a film of this rate."""
    content = hashlib.sha256(f"{total} {rate}".encode())
    for number, frame in zip(numbers, frames, strict=True):
        content.update(f" {number} {frame.digest}".encode())
    return Clip(
        frames[0].image,
        content.hexdigest(),
        name,
        from_file=bool(name),
        frames=tuple(frames),
        numbers=tuple(numbers),
        total=total,
        rate=rate,
        sampling=sampling,
    )
