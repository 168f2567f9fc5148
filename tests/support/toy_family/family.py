"""A family that is no part of mmspec: Llama sees the colours of an image's quarters.

docs/extending.md describes its parts.
"""

from dataclasses import dataclass
from functools import partial
from pathlib import Path

from mmspec.families.clip_images import ClipImages, read_clip_images
from mmspec.families.decoder import TextConfig
from mmspec.families.family import Architecture, Family, ImageTokens
from mmspec.families.grid import Grid
from mmspec.families.text_families import read_llama
from mmspec.families.tower import Array, Tensors, TowerParts, listed
from mmspec.ground.json_file import Block


@dataclass(frozen=True)
class ColourVision:
    """Four visual positions an image, each the mean colour of a quarter."""

    image_size: int = 8
    hidden_size: int = 3

    @property
    def pool_sizes(self) -> list[int]:
        return [1]

    def grid(self, height: int, width: int, moment: int = 0, step: float = 0.0) -> Grid:
        return Grid(height // 4, width // 4)

    def preprocessing(self, directory: Path) -> ClipImages:
        return read_clip_images(directory, self.image_size)

    def tensors(self, text: TextConfig) -> Tensors:
        return listed(partial(self.tower, text=text))

    def tower(self, parts: TowerParts, text: TextConfig) -> "ColourTower":
        return ColourTower(self, parts, text.hidden_size)


class ColourTower:
    """Implements `mmspec.families.tower.Tower`."""

    def __init__(self, config: ColourVision, parts: TowerParts, text_width: int) -> None:
        self.settings = repr(config)
        self.project = parts.linear(3, text_width, "multi_modal_projector.colours")

    def encode(self, pixels: Array) -> Array:
        _, height, width = pixels.shape
        quarters = pixels.reshape(3, height // 4, 4, width // 4, 4).mean(axis=(2, 4))
        return quarters.reshape(3, -1).T


def _read(whole: Block) -> Architecture:
    text = whole.block("text_config")
    image = whole.integer("image_token_id", 3, 0, 10**6)
    return Architecture(text, read_llama(text), ColourVision(), image)


COLOURS = Family("colours", ImageTokens("<image>"), _read)
