"""Qwen3-VL: a tower of any resolution, DeepStack, and Qwen3 with interleaved M-RoPE.

The tower's patches are in blocks of merge x merge, which one visual position stands for. Besides
it computes features that the decoder's first layers add to their outputs (DeepStack).

Shape letters: P patches of one image.
"""

from dataclasses import dataclass, replace
from math import isqrt
from pathlib import Path
from typing import Annotated, NamedTuple

import numpy as np
from numpy.typing import NDArray

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
from mmspec.families.qwen_images import QwenImages, read_qwen_images
from mmspec.families.tensors import Prefixes, Tensors, affine
from mmspec.json_reader.limits import Range

Small = Annotated[int, Range(1, 1000)]
"""A number of pixels, frames or patches."""

PATCHES = "vision_tower.patch_embed.proj.weight"
"""Name of the only convolution's weight, which MLX stores in another axis order."""

POOL_SIZES = [1024, 256, 64, 16, 4, 1]
"""Numbers of positions to which an image is pooled if there is room for no more."""

SECTIONS = (24, 20, 20)
"""Frequencies that turn by time, row and column if the config names none."""


class Layout(NamedTuple):
    """Where the patches of one image are, in the order in which the tower has them."""

    places: NDArray[np.int64]
    """[P, 2] row and column of each patch."""
    neighbours: NDArray[np.int64]
    """[P, 4] rows of the table of position embeddings, which is a square grid."""
    weights: NDArray[np.float32]
    """[P, 4] their shares in the patch's position embedding (bilinear interpolation)."""


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

    def layout(self, height: int, width: int) -> Layout:
        """Where the patches of pixel values [3, height, width] are."""
        rows, columns = height // self.patch_size, width // self.patch_size
        places = np.indices((rows, columns)).reshape(2, -1)[:, self._order(rows, columns)]
        taps = (self._taps(*each) for each in zip(places, (rows, columns), strict=True))
        (down, down_share), (across, across_share) = taps
        neighbours = down[:, :, None] * self.side + across[:, None]
        weights = down_share[:, :, None] * across_share[:, None]
        return Layout(places.T, neighbours.reshape(-1, 4), weights.reshape(-1, 4))

    def _order(self, rows: int, columns: int) -> NDArray[np.int64]:
        """Numbers of the patches, counted row by row, in the order of blocks."""
        merge = self.spatial_merge_size
        numbers = np.arange(rows * columns).reshape(rows // merge, merge, columns // merge, merge)
        return numbers.transpose(0, 2, 1, 3).reshape(-1)

    def _taps(
        self, index: NDArray[np.int64], size: int
    ) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """The two nearest of `side` embeddings for places [P] among `size`, and their shares."""
        at = index.astype(np.float32) * np.float32(self.side - 1) / np.float32(max(size - 1, 1))
        below = np.floor(at)
        share = np.stack([1 - (at - below), at - below], axis=1)
        taps = below.astype(np.int64)[:, None] + np.arange(2)
        return taps.clip(0, self.side - 1), share.astype(np.float32)

    def preprocessing(self, directory: Path) -> QwenImages:
        """Qwen's preprocessing with a checkpoint's settings.  Raises CheckpointError."""
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
