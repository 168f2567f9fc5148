"""Qwen3-VL: a tower of any resolution, DeepStack, and Qwen3 with interleaved M-RoPE.

The tower's patches are in blocks of merge x merge, which one visual position stands for. Besides
it computes features that the decoder's first layers add to their outputs (DeepStack).
"""

from dataclasses import dataclass, replace
from math import isqrt
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from mmspec.checkpoints.json_file import Block
from mmspec.families.decoder import (
    Heads,
    Layers,
    RotaryBase,
    Section,
    TextConfig,
    TokenId,
    Width,
)
from mmspec.families.family import Architecture, ImageTokens
from mmspec.families.grid import PlaneGrid
from mmspec.families.qwen3 import DEFAULTS, read_qwen3
from mmspec.families.tensors import Prefixes, Tensors, affine
from mmspec.json_reader.limits import Range

if TYPE_CHECKING:
    from mmspec.families.qwen_images import QwenImages

Small = Annotated[int, Range(1, 1000)]
"""A number of pixels, frames or patches."""

PATCHES = "vision_tower.patch_embed.proj.weight"
"""Name of the only convolution's weight, which MLX stores in another axis order."""

POOL_SIZES = [1024, 256, 64, 16, 4, 1]
"""Numbers of positions to which an image is pooled if there is room for no more."""

SECTIONS = (24, 20, 20)
"""Frequencies that turn by time, row and column if the config names none."""


@dataclass(frozen=True)
class Qwen3VLVision:
    """Qwen3-VL's tower and mergers; patch_size is in pixels, the other sizes in patches."""

    hidden_size: Width = 1152
    intermediate_size: Width = 4304
    depth: Layers = 27
    num_heads: Heads = 16
    patch_size: Small = 16
    temporal_patch_size: Small = 2
    spatial_merge_size: Small = 2
    num_position_embeddings: Width = 2304
    deepstack: tuple[int, ...] = (8, 16, 24)
    """Layers of the tower after which DeepStack's features are taken."""
    rope_theta: RotaryBase = 10000.0

    @property
    def side(self) -> int:
        """Number of position embeddings along one side of their grid."""
        return isqrt(self.num_position_embeddings)

    @property
    def image_size(self) -> int:
        """Side of a square picture whose patches are the grid of position embeddings."""
        cell = self.patch_size * self.spatial_merge_size
        return self.side * self.patch_size // cell * cell

    @property
    def patch_numbers(self) -> int:
        """Numbers in a patch of an image, which is shown as so many equal frames."""
        return 3 * self.temporal_patch_size * self.patch_size**2

    @property
    def merged_size(self) -> int:
        """Width of a merged block of patches."""
        return self.hidden_size * self.spatial_merge_size**2

    @property
    def pool_sizes(self) -> list[int]:
        """Numbers of positions to which an image can be pooled, largest first."""
        return POOL_SIZES

    def grid(self, height: int, width: int) -> PlaneGrid:
        """The visual positions of pixel values [3, height, width]."""
        cell = self.patch_size * self.spatial_merge_size
        return PlaneGrid(height // cell, width // cell)

    def preprocessing(self, directory: Path) -> "QwenImages":
        """Qwen's preprocessing with a checkpoint's settings.  Raises CheckpointError."""
        from mmspec.families.qwen_images import read_qwen_images  # pixels need numpy and Pillow

        sizes = self.patch_size, self.spatial_merge_size, self.temporal_patch_size
        return read_qwen_images(directory, *sizes)

    def tensors(self, text: TextConfig) -> Tensors:
        """The tensors of the tower and its mergers."""
        width, patch = self.hidden_size, self.patch_size
        window = self.temporal_patch_size, patch, patch
        yield from affine("vision_tower.patch_embed.proj", width, 3, *window)
        yield "vision_tower.pos_embed.weight", (self.num_position_embeddings, width), True
        for layer in range(self.depth):
            yield from _block(f"vision_tower.blocks.{layer}", width, self.intermediate_size)
        yield from self._merger("vision_tower.merger", width, text.hidden_size)
        for number in range(len(self.deepstack)):
            path = f"vision_tower.deepstack_merger_list.{number}"
            yield from self._merger(path, self.merged_size, text.hidden_size)

    def _merger(self, path: str, norm: int, out: int) -> Tensors:
        yield from affine(f"{path}.norm", norm)
        yield from affine(f"{path}.linear_fc1", self.merged_size, self.merged_size)
        yield from affine(f"{path}.linear_fc2", out, self.merged_size)


class Qwen3VL:
    """Implements `mmspec.families.family.Family`."""

    model_type = "qwen3_vl"
    image_tokens = ImageTokens("<|image_pad|>", "<|vision_start|>", "<|vision_end|>")
    convolution = PATCHES
    # Saved by: transformers and the hub, MLX conversions.
    stored_prefixes: Prefixes = (
        ("model.language_model.", "language_model."),
        ("model.visual.", "vision_tower."),
        ("language_model.model.", "language_model."),
        ("language_model.lm_head.", "lm_head."),
    )
    hub_prefixes: Prefixes = (
        ("language_model.", "language_model.model."),
        ("lm_head.", "language_model.lm_head."),
    )

    def read(self, whole: Block) -> Architecture:
        """Read config.json.  Raises CheckpointError."""
        block = whole.block("text_config")
        block.only("model_type", ("qwen3_vl_text",), "qwen3_vl_text")
        ties = [each.flag("tie_word_embeddings", False) for each in (whole, block)]
        defaults = replace(DEFAULTS, max_position_embeddings=128000, rope_theta=500000.0)
        text = read_qwen3(block, defaults, any(ties))
        text = replace(text, rotary_sections=_sections(block))
        vision = _vision(whole.block("vision_config"), text)
        return Architecture(block, text, vision, whole.read("image_token_id", TokenId, 151655))


def _block(path: str, width: int, inner: int) -> Tensors:
    yield from affine(f"{path}.norm1", width)
    yield from affine(f"{path}.norm2", width)
    yield from affine(f"{path}.attn.qkv", 3 * width, width)
    yield from affine(f"{path}.attn.proj", width, width)
    yield from affine(f"{path}.mlp.linear_fc1", inner, width)
    yield from affine(f"{path}.mlp.linear_fc2", width, inner)


def _sections(text: Block) -> tuple[int, ...]:
    """The three sections of M-RoPE: transformers 5's `rope_parameters`, else `rope_scaling`."""
    rope = text.block("rope_parameters" if text.get("rope_parameters") else "rope_scaling")
    rope.only("mrope_interleaved", (True,), True)
    kind = Annotated[tuple[Section, ...], Range(3, 3)]
    sections: tuple[int, ...] = rope.read("mrope_section", kind, list(SECTIONS))
    return sections


def _vision(vision: Block, text: TextConfig) -> Qwen3VLVision:
    vision.only("model_type", ("qwen3_vl_vision", "qwen3_vl"), "qwen3_vl")
    vision.only("hidden_act", ("gelu_pytorch_tanh",), "gelu_pytorch_tanh")
    vision.only("in_channels", (3,), 3)
    vision.only("out_hidden_size", (text.hidden_size,), 3584)
    config = vision.record(Qwen3VLVision, deepstack=[])
    if config.hidden_size % (4 * config.num_heads):
        raise vision.error("hidden_size", "a multiple of 4 times num_heads")
    theta = vision.block("rope_parameters").read("rope_theta", RotaryBase, config.rope_theta)
    return replace(config, deepstack=_deepstack(vision, config.depth, text), rope_theta=theta)


def _deepstack(vision: Block, depth: int, text: TextConfig) -> tuple[int, ...]:
    """The layers of the tower whose features the decoder's first layers add."""
    key, most = "deepstack_visual_indexes", text.num_hidden_layers
    kind = Annotated[tuple[Annotated[int, Range(0, depth - 1)], ...], Range(0, most)]
    layers: tuple[int, ...] = vision.read(key, kind, [8, 16, 24])
    if list(layers) != sorted({*layers}):
        raise vision.error(key, "ascending, without repetition")
    return layers
