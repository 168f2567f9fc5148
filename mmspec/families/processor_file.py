"""What the image processors of all families share: their file, and scaling and normalising."""

from pathlib import Path
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from mmspec.ground.input_files import is_there
from mmspec.ground.json_file import Block, read_json
from mmspec.ground.limits import Range

IMAGES = "preprocessor_config.json"
"""The image processor's own file, which is the video processor's where that has none."""

Mean = Annotated[float, Range(-1e3, 1e3)]
Spread = Annotated[float, Range(1e-3, 1e3)]
Channels = tuple[float, ...]
"""One number for each of the three channels."""


def normalised(
    array: NDArray[np.uint8], scale: float, mean: Channels, std: Channels
) -> NDArray[np.float32]:
    """Pixel values [3, height, width] of an array [height, width, 3] of 0..255."""
    # float64 first, then float32 throughout: the processor's own roundings, in its order.
    scaled = (array.astype(np.float64) * scale).astype(np.float32)
    centre, spread = np.array(mean, dtype=np.float32), np.array(std, dtype=np.float32)
    return np.ascontiguousarray(((scaled - centre) / spread).transpose(2, 0, 1))


def processor_block(directory: Path) -> Block | None:
    """The image processor's settings in a checkpoint's files; None if there are none."""
    file = directory / "processor_config.json"
    if is_there(file):
        block = Block(read_json(file), file).block("image_processor")
        if block.values:
            return block
    file = directory / IMAGES
    return Block(read_json(file), file) if is_there(file) else None


def video_block(directory: Path) -> Block | None:
    """The video processor's settings in a checkpoint's files; None if there are none."""
    file = directory / "processor_config.json"
    if is_there(file):
        block = Block(read_json(file), file).block("video_processor")
        if block.values:
            return block
    files = (directory / name for name in ("video_preprocessor_config.json", IMAGES))
    present = filter(is_there, files)
    return next((Block(read_json(file), file) for file in present), None)


def read_scale(block: Block) -> float:
    """What multiplies 0..255.  Raises CheckpointError."""
    if not block.flag("do_rescale", True):
        return 1.0
    return block.number("rescale_factor", 1 / 255, 1e-6, 1e3)


def read_mean(block: Block, default: Channels) -> Channels:
    """What is subtracted, zeros if the processor does not normalise.  Raises CheckpointError."""
    return _channels(block, "image_mean", Mean, default, 0.0)


def read_std(block: Block, default: Channels) -> Channels:
    """What divides, ones if the processor does not normalise.  Raises CheckpointError."""
    return _channels(block, "image_std", Spread, default, 1.0)


def _channels(block: Block, key: str, kind: Any, default: Channels, without: float) -> Channels:
    if not block.flag("do_normalize", True):
        return (without,) * 3
    if not isinstance(block.get(key, list(default)), list):
        return (block.read(key, kind, None),) * 3
    values: Channels = block.read(key, tuple[kind, ...], list(default))
    if len(values) != 3:
        raise block.error(key, "three numbers")
    return values
