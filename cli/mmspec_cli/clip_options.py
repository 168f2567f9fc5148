"""The options that choose frames of clips."""

from collections.abc import Callable
from functools import wraps
from typing import Any

import click

from mmspec_terminal.option_groups import together

OPTIONS = together(
    click.option(
        "--fps",
        type=float,
        default=2.0,
        show_default=True,
        help="Frames a second that are taken of a clip, evenly; 4 at least.",
    ),
    click.option(
        "--max-frames",
        type=int,
        metavar="N",
        help="Frames of a clip at most, up to 768. Default: 64; of these, models that see frames "
        "as images are shown as many as fit into half of their context.",
    ),
)


def clip_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Decorator that adds them, passed as `sampling`, a `mmspec.prompt.clips.FrameSampling`."""

    @wraps(command)
    def with_sampling(*args: Any, fps: float, max_frames: int | None, **values: Any) -> Any:
        from mmspec.prompt.clips import FrameSampling

        return command(*args, sampling=FrameSampling(fps, max_frames), **values)

    return OPTIONS(with_sampling)
