"""What the towers of Qwen2.5-VL and Qwen3-VL share.

A tower's patches are in blocks of merge x merge, which one visual position stands for.
"""

from dataclasses import dataclass
from typing import Annotated

from mmspec.families.decoder import Heads, Layers, RotaryBase, TextConfig, Width
from mmspec.families.family import ImageTokens
from mmspec.families.grid import PlaneGrid
from mmspec.families.tensors import Prefixes
from mmspec.ground.json_file import Block
from mmspec.ground.limits import Range

Small = Annotated[int, Range(1, 1000)]
"""A number of pixels, frames or patches."""

PATCHES = "vision_tower.patch_embed.proj.weight"
"""Name of the only convolution's weight, which MLX stores in another axis order."""

POOL_SIZES = [1024, 256, 64, 16, 4, 1]
"""Numbers of positions to which an image is pooled if there is room for no more."""

IMAGE_TOKENS = ImageTokens("<|image_pad|>", "<|vision_start|>", "<|vision_end|>")

# Saved by: transformers 5 and the hub's Qwen3-VL, MLX conversions, the hub's Qwen2.5-VL.
STORED_PREFIXES: Prefixes = (
    ("model.language_model.", "language_model."),
    ("model.visual.", "vision_tower."),
    ("language_model.model.", "language_model."),
    ("language_model.lm_head.", "lm_head."),
    ("visual.", "vision_tower."),
    ("model.", "language_model."),
)
HUB_PREFIXES: Prefixes = (
    ("language_model.", "language_model.model."),
    ("lm_head.", "language_model.lm_head."),
)


@dataclass(frozen=True)
class QwenVision:
    """A tower and its merger; patch_size is in pixels, the other sizes in patches or features."""

    hidden_size: Width = 1280
    intermediate_size: Width = 3420
    depth: Layers = 32
    num_heads: Heads = 16
    patch_size: Small = 14
    temporal_patch_size: Small = 2
    spatial_merge_size: Small = 2
    rope_theta: RotaryBase = 10000.0

    @property
    def cell(self) -> int:
        """Side in pixels of what becomes one visual position."""
        return self.patch_size * self.spatial_merge_size

    @property
    def merged_size(self) -> int:
        """Width of a merged block of patches."""
        return self.hidden_size * self.spatial_merge_size**2

    @property
    def deepstack_layers(self) -> int:
        """None."""
        return 0

    @property
    def pool_sizes(self) -> list[int]:
        """Numbers of positions to which an image can be pooled, largest first."""
        return POOL_SIZES

    def grid(self, height: int, width: int) -> PlaneGrid:
        """The visual positions of pixel values [3, height, width]."""
        return PlaneGrid(height // self.cell, width // self.cell)

    def tower_rows(self, height: int, width: int) -> int:
        """The patches of pixel values [3, height, width]."""
        return self.grid(height, width).positions * self.spatial_merge_size**2

    def moment_grid(self, height: int, width: int, place: int, step: float) -> PlaneGrid:  # noqa: ARG002
        """That of an image: the prompt says a moment's time."""
        return self.grid(height, width)


def check_vision(vision: Block, model_type: str, activation: str, text: TextConfig) -> None:
    """Raise CheckpointError for a tower that is not of `model_type`, or does not fit a decoder."""
    vision.only("model_type", (f"{model_type}_vision", model_type), model_type)
    vision.only("hidden_act", (activation,), activation)
    vision.only("in_channels", (3,), 3)
    vision.only("temporal_patch_size", (2,), 2)
    vision.only("out_hidden_size", (text.hidden_size,), 3584)
    heads = vision.read("num_heads", Heads, 16)
    if vision.read("hidden_size", Width, 4 * heads) % (4 * heads):
        raise vision.error("hidden_size", "a multiple of 4 times num_heads")


def vision_theta(vision: Block) -> float:
    """The rotary base of a tower."""
    theta: float = vision.block("rope_parameters").read("rope_theta", RotaryBase, 10000.0)
    return theta
