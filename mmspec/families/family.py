"""What the core asks of a family of models.  N: visual positions of one image."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol, Self

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from mmspec.families.decoder import TextConfig
from mmspec.families.grid import Grid
from mmspec.families.tower import Prefixes, Tensors, Tower, TowerParts
from mmspec.ground.errors import UsageError
from mmspec.ground.json_file import Block


class Preprocessing(Protocol):
    """How an image becomes pixel values; two that compare equal give the same pixels."""

    def size(self, width: int, height: int) -> tuple[int, int]:
        """Height and width of an image's pixel values; ImageError for a size that it cannot see."""

    def pixels(self, image: Image.Image) -> NDArray[np.float32]:
        """The pixel values [3, height, width] of an upright RGB image."""

    def for_clip(self, frames: int) -> Self:  # noqa: ARG002
        """The preprocessing of each of a clip's `frames` frames; 0: of an image."""
        return self

    def with_limit(self, positions: int | None) -> Self:
        """The same with at most `positions` for an image; None takes the family's own limit.

        A clip may have as many as four images. Raises UsageError for a family whose images all have
        as many positions.
        """
        if positions is None:
            return self
        raise UsageError(
            f"`max_image_tokens={positions}`: this model has a fixed number of tokens an image; "
            "leave it out"
        )

    def is_reduced(self, width: int, height: int) -> bool:  # noqa: ARG002
        """True if an image of this size gets fewer positions because of `with_limit`."""
        return False


class Vision(Protocol):
    """The config of a family's tower and projector."""

    @property
    def image_size(self) -> int:
        """Side in pixels of a square picture that the tower sees without resizing."""

    @property
    def hidden_size(self) -> int:
        """Width of the tower."""

    @property
    def pool_sizes(self) -> list[int]:
        """Numbers of positions to which an image can be pooled, largest first."""

    def tensors(self, text: TextConfig) -> Tensors:
        """The tensors of tower and projector."""

    def tower(self, parts: TowerParts, text: TextConfig) -> Tower:
        """Take tower and projector; text: the decoder that gets the embeddings."""

    def grid(self, height: int, width: int, moment: int = 0, step: float = 0.0) -> Grid:
        """The visual positions of pixel values [3, height, width].

        moment: number of the clip's moments before, `step` seconds apart; 0 for an image.
        """

    def preprocessing(self, directory: Path) -> Preprocessing:
        """The preprocessing of a checkpoint.  Raises CheckpointError for a malformed file."""


@dataclass(frozen=True, slots=True)
class Architecture:
    """What a family reads from a config.json."""

    block: Block
    """Where the decoder's keys are: the whole file, or a block of it."""
    text: TextConfig
    vision: Vision | None = None
    image_token_id: int | None = None


Clips = Literal["images", "moments", "timed"]
"""How a clip is shown: its frames as images, its moments as one, or each after its time."""


@dataclass(frozen=True, slots=True)
class ImageTokens:
    """Special tokens that stand for an image in a prompt, where the files name none."""

    image: str
    before: str = ""
    after: str = ""
    clip: Clips = "images"


Decoder = Callable[[Block], TextConfig]
"""Reads a decoder's sizes."""


@dataclass(frozen=True, slots=True)
class Family:
    """A family of models; by default without eyes, in files as transformers names their tensors."""

    model_type: str
    """The family's name in config.json."""
    image_tokens: ImageTokens
    read: Callable[[Block], Architecture]
    """Reads config.json.

    Absent keys take transformers' defaults. Raises CheckpointError, naming file, key, value and
    what is allowed, for anything that the family's networks do not compute.
    """
    convolution: str = ""
    """Name of the tower's convolution weight, which MLX stores in another axis order; or ''."""
    stored_prefixes: Prefixes = (("model.", "language_model."),)
    """Beginnings of names in files, in any layout, and the canonical ones."""
    hub_prefixes: Prefixes = (("language_model.", "model."),)
    """Beginnings of canonical names, and those in the files of mlx-vlm and mlx-lm."""
    stop_tokens: tuple[int, ...] = ()
    """Tokens that end an answer if the files name none; the tokenizer's own ends it too."""


def text_family(
    model_type: str, image_tokens: ImageTokens, decoder: Decoder, stop_tokens: tuple[int, ...] = ()
) -> Family:
    """A family of decoders without eyes."""

    def read(whole: Block) -> Architecture:
        return Architecture(whole, decoder(whole))

    return Family(model_type, image_tokens, read, stop_tokens=stop_tokens)
