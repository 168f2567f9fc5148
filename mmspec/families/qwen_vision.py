"""What the towers of Qwen2.5-VL and Qwen3-VL share.

A tower's patches are in blocks of merge x merge, which a merger joins to one visual position each.

Shape letters: P patches of one image, block by block; N visual positions (blocks); D width of the
tower, H its heads, S size of a head.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from mmspec.families.decoder import Heads, Layers, RotaryBase, TextConfig, TokenId, Width, tie_as
from mmspec.families.family import Architecture, Clips, Decoder, Family, Vision
from mmspec.families.grid import PlaneGrid
from mmspec.families.text_families import QWEN_IMAGE
from mmspec.families.tower import (
    Array,
    Map,
    Prefixes,
    Tensors,
    Tower,
    TowerLayer,
    TowerParts,
    cast,
    cut,
    listed,
    mlp,
)
from mmspec.ground.json_file import Block, Range

Small = Annotated[int, Range(1, 1000)]
"""A number of pixels, frames or patches."""

PATCHES = "vision_tower.patch_embed.proj.weight"
"""Name of the only convolution's weight, which MLX stores in another axis order."""

EPSILON = 1e-6
"""Number that norms add to the variance."""

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
class QwenVision(ABC):
    """A tower and its merger; patch_size is in pixels, the other sizes in patches or features."""

    pool_sizes: ClassVar[list[int]] = [1024, 256, 64, 16, 4, 1]
    activation: ClassVar[str]
    """Name of the MLPs' activation in config.json."""
    hidden_size: Width = 3584
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

    def grid(self, height: int, width: int, moment: int = 0, step: float = 0.0) -> PlaneGrid:  # noqa: ARG002
        """The visual positions of pixel values [3, height, width], of a moment as of an image."""
        return PlaneGrid(height // self.cell, width // self.cell)

    def tensors(self, text: TextConfig) -> Tensors:
        """The tensors of the tower and its mergers."""
        return listed(partial(self.tower, text=text))

    @abstractmethod
    def tower(self, parts: TowerParts, text: TextConfig) -> Tower:
        """Take the tower and its mergers."""

    @classmethod
    def read(cls, vision: Block, model_type: str, text: TextConfig) -> Self:
        """Read a tower; raises CheckpointError if it has another type or does not fit `text`."""
        vision.only("model_type", (f"{model_type}_vision", model_type), model_type)
        vision.only("hidden_act", (cls.activation,), cls.activation)
        vision.only("in_channels", (3,), 3)
        vision.only("temporal_patch_size", (2,), 2)
        vision.only("out_hidden_size", (text.hidden_size,), 3584)
        config = vision.record(cls)
        if config.hidden_size % (4 * config.num_heads):
            raise vision.error("hidden_size", "a multiple of 4 times num_heads")
        theta = vision.block("rope_parameters").read("rope_theta", RotaryBase, 10000.0)
        return replace(config, rope_theta=theta)


def qwen_family(
    model_type: str,
    clip: Clips,
    decoder: Decoder,
    vision: Callable[[Block, TextConfig], Vision],
    image_token_id: int,
    *,
    is_flat: bool = False,
    may_be_blind: bool = False,
) -> Family:
    """A family of Qwen's decoders with a tower.

    vision: reads a tower for a decoder.  image_token_id: the token of images if the config names
    none.  is_flat: true if the decoder's keys may be among the others, as in the hub's Qwen2.5-VL.
    may_be_blind: true if a config without a tower is of a model without one.
    """

    def read(whole: Block) -> Architecture:
        has_block = whole.get("text_config") or not is_flat
        block, kind = whole.block("text_config") if has_block else whole, f"{model_type}_text"
        block.only("model_type", (model_type, kind) if is_flat else (kind,), kind)
        text = tie_as(whole, decoder(block))
        if may_be_blind and not whole.get("vision_config"):
            return Architecture(block, text)
        token = whole.read("image_token_id", TokenId, image_token_id)
        return Architecture(block, text, vision(whole.block("vision_config"), text), token)

    image_tokens = replace(QWEN_IMAGE, clip=clip)
    return Family(model_type, image_tokens, read, PATCHES, STORED_PREFIXES, HUB_PREFIXES)


Patches = NDArray[np.int64]
"""[P, 2] row and column of each patch of an image."""


def rotation(config: QwenVision, parts: TowerParts, positions: Patches) -> Map:
    """Function that turns heads [P, H, S] by patches' rows and columns, in float32."""
    xp, half = parts.xp, config.hidden_size // config.num_heads // 2
    steps = np.arange(0, half, 2, dtype=np.float32) / np.float32(half)
    frequencies = (1 / np.float32(config.rope_theta) ** steps).astype(np.float32)
    turns = (positions[..., None].astype(np.float32) * frequencies).reshape(-1, 1, half)
    angles = np.concatenate([turns, turns], axis=-1)
    cos, sin = parts.upload(np.cos(angles)), parts.upload(np.sin(angles))

    def rotate(heads: Array) -> Array:
        x = cast(xp, heads, xp.float32)
        quarter = xp.concat([-x[..., half:], x[..., :half]], axis=-1)
        return cast(xp, x * cos + quarter * sin, heads.dtype)

    return rotate


class QwenTower(ABC):
    """Implements `Tower` but for the mergers."""

    def __init__(
        self,
        config: QwenVision,
        parts: TowerParts,
        norm: Callable[[str, int, float], Map],
        activation: Map,
        *names: str,
        bias: bool = False,
    ) -> None:
        """norm: takes the norm at a path, of a width.  activation: that of the layers' MLPs.

        names: those of an MLP's linear layers, of which the last is behind the activation.  bias:
        true if the convolution has one.
        """
        self.settings, self._sizes, self._parts = repr(config), config, parts
        size, width, inner = config.patch_size, config.hidden_size, config.intermediate_size
        shape = width, 3, config.temporal_patch_size, size, size
        name = PATCHES.replace("weight", "bias") if bias else ""
        self._patches = parts.convolution(PATCHES, *shape, bias=name)

        def layer(path: str) -> TowerLayer:
            *first, second = (f"{path}.mlp.{name}" for name in names)
            wider = parts.linear(width, inner, *first)
            narrower = parts.linear(inner, width, second)
            return TowerLayer(
                config.num_heads,
                norm(f"{path}.norm1", width, EPSILON),
                parts.linear(width, 3 * width, f"{path}.attn.qkv"),
                parts.linear(width, width, f"{path}.attn.proj"),
                norm(f"{path}.norm2", width, EPSILON),
                mlp(wider, activation, narrower),
            )

        self._layers = [layer(f"vision_tower.blocks.{index}") for index in range(config.depth)]

    @abstractmethod
    def encode(self, pixels: Array) -> Array:
        """Features of pixel values [3, height, width], or [2, 3, height, width]."""

    def _begin(self, pixels: Array) -> tuple[Patches, Map, Array]:
        """The places of an image's patches, what turns heads by them, and the first rows [P, D]."""
        config, parts = self._sizes, self._parts
        size, merge = config.patch_size, config.spatial_merge_size
        rows, columns = (side // size for side in pixels.shape[-2:])
        blocks = np.indices((rows, columns)).reshape(2, rows // merge, merge, -1, merge)
        positions = blocks.transpose(1, 3, 2, 4, 0).reshape(-1, 2)
        patches = cut(parts.xp, pixels, size, merge, config.temporal_patch_size)
        return positions, rotation(config, parts, positions), self._patches(patches)

    def project(self, rows: Array) -> Array:
        """The features themselves: the mergers have projected them."""
        return rows
