"""A family that is no part of mmspec: Llama sees the colours of an image's quarters.

docs/extending.md describes its parts; each tower is in a file of its framework.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from mmspec.families.decoder import TextConfig
from mmspec.families.family import Architecture, ImageTokens
from mmspec.families.grid import Grid
from mmspec.families.llama import read_llama
from mmspec.families.tensors import Prefixes, affine
from mmspec.ground.json_file import Block

if TYPE_CHECKING:
    from mmspec.families.clip_images import ClipImages


@dataclass(frozen=True)
class ColourVision:
    """Four visual positions an image, each the mean colour of a quarter."""

    image_size: int = 8
    hidden_size: int = 3

    @property
    def deepstack_layers(self) -> int:
        return 0

    @property
    def pool_sizes(self) -> list[int]:
        return [1]

    def grid(self, height: int, width: int) -> Grid:
        return Grid(height // 4, width // 4)

    def tower_rows(self, height: int, width: int) -> int:
        return 0

    def moment_grid(self, height: int, width: int, place: int, step: float) -> Grid:
        return self.grid(height, width)

    def preprocessing(self, directory: Path) -> "ClipImages":
        from mmspec.families.clip_images import read_clip_images

        return read_clip_images(directory, self.image_size)

    def tensors(self, text: TextConfig) -> Iterator[tuple[str, tuple[int, ...], bool]]:
        yield from affine("multi_modal_projector.colours", text.hidden_size, self.hidden_size)


class Colours:
    """Implements `mmspec.families.family.Family`."""

    model_type = "colours"
    image_tokens = ImageTokens("<image>")
    convolution = ""
    stored_prefixes: Prefixes = (("model.", "language_model."),)
    hub_prefixes: Prefixes = (("language_model.", "model."),)

    def read(self, whole: Block) -> Architecture:
        text = whole.block("text_config")
        image = whole.integer("image_token_id", 3, 0, 10**6)
        return Architecture(text, read_llama(text, tied=False), ColourVision(), image)
