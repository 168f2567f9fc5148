"""What the image processors of all families share: their file, and scaling and normalising."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from mmspec.ground.input_files import is_there
from mmspec.ground.json_file import Block, Range

IMAGES = "preprocessor_config.json"
"""The image processor's own file, which is the video processor's where that has none."""

CLIP_MEAN = (0.48145466, 0.4578275, 0.40821073)
CLIP_STD = (0.26862954, 0.26130258, 0.27577711)

Mean = Annotated[float, Range(-1e3, 1e3)]
Spread = Annotated[float, Range(1e-3, 1e3)]
Channels = tuple[float, ...]
"""One number for each of the three channels."""


@dataclass(frozen=True, slots=True)
class PixelValues:
    """How numbers of 0..255 become pixel values: times `scale`, less `mean`, divided by `std`.

    `mean` and `std` are per channel. `resample` is the filter that changes an image's size.
    """

    resample: Image.Resampling = Image.Resampling.BICUBIC
    scale: float = 1 / 255
    mean: Channels = CLIP_MEAN
    std: Channels = CLIP_STD

    def of(self, image: Image.Image) -> NDArray[np.float32]:
        """The pixel values [3, height, width] of an RGB image."""
        # float64 first, then float32 throughout: the processor's own roundings, in its order.
        scaled = (np.asarray(image).astype(np.float64) * self.scale).astype(np.float32)
        centre, spread = np.array(self.mean, np.float32), np.array(self.std, np.float32)
        return np.ascontiguousarray(((scaled - centre) / spread).transpose(2, 0, 1))


CLIP = PixelValues()
"""CLIP's own."""


def read_values(block: Block, lacking: PixelValues) -> PixelValues:
    """An image processor's settings; `lacking`: of absent keys.  Raises CheckpointError."""
    scales, normalises = block.flag("do_rescale", True), block.flag("do_normalize", True)
    return PixelValues(
        Image.Resampling(block.only("resample", list(Image.Resampling), 3)),
        block.number("rescale_factor", 1 / 255, 1e-6, 1e3) if scales else 1.0,
        _channels(block, "image_mean", Mean, lacking.mean) if normalises else (0.0,) * 3,
        _channels(block, "image_std", Spread, lacking.std) if normalises else (1.0,) * 3,
    )


def processor_block(directory: Path, kind: Literal["image", "video"] = "image") -> Block | None:
    """The settings of the image or video processor in a checkpoint's files; None without any."""
    file = directory / "processor_config.json"
    if is_there(file):
        block = Block.of(file).block(f"{kind}_processor")
        if block.values:
            return block
    names = (IMAGES,) if kind == "image" else ("video_preprocessor_config.json", IMAGES)
    present = filter(is_there, (directory / name for name in names))
    return next((Block.of(file) for file in present), None)


def _channels(block: Block, key: str, kind: Any, default: Channels) -> Channels:
    if not isinstance(block.get(key, list(default)), list):
        return (block.read(key, kind, None),) * 3
    values: Channels = block.read(key, tuple[kind, ...], list(default))
    if len(values) != 3:
        raise block.error(key, "three numbers")
    return values
