"""Qwen3-VL: a tower of any resolution, DeepStack, and Qwen3 with interleaved M-RoPE.

Besides embeddings the tower computes features that the decoder's first layers add to their outputs
(DeepStack).
"""

from dataclasses import dataclass, replace
from math import isqrt
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from mmspec.families.decoder import Layers, TextConfig, TokenId, Width
from mmspec.families.family import Architecture
from mmspec.families.mrope import interleaved, read_sections, rope_block
from mmspec.families.qwen3 import DEFAULTS, read_qwen3
from mmspec.families.qwen_vision import (
    HUB_PREFIXES,
    IMAGE_TOKENS,
    PATCHES,
    STORED_PREFIXES,
    QwenVision,
    Small,
    check_vision,
    vision_theta,
)
from mmspec.families.tensors import Tensors, affine
from mmspec.ground.json_file import Block
from mmspec.ground.limits import Length, Range

if TYPE_CHECKING:
    from mmspec.families.qwen_images import QwenImages

SECTIONS = (24, 20, 20)
"""Frequencies that turn by time, row and column if the config names none."""


@dataclass(frozen=True)
class Qwen3VLVision(QwenVision):
    """Qwen3-VL's tower and mergers."""

    hidden_size: Width = 1152
    intermediate_size: Width = 4304
    depth: Layers = 27
    patch_size: Small = 16
    num_position_embeddings: Width = 2304
    deepstack: tuple[int, ...] = (8, 16, 24)
    """Layers of the tower after which DeepStack's features are taken."""

    @property
    def deepstack_layers(self) -> int:
        """One for each layer of the tower whose features are taken."""
        return len(self.deepstack)

    @property
    def side(self) -> int:
        """Number of position embeddings along one side of their grid."""
        return isqrt(self.num_position_embeddings)

    @property
    def image_size(self) -> int:
        """Side of a square picture whose patches are the grid of position embeddings."""
        return self.side * self.patch_size // self.cell * self.cell

    def preprocessing(self, directory: Path) -> "QwenImages":
        """Qwen's preprocessing with a checkpoint's settings.  Raises CheckpointError."""
        from mmspec.families.qwen_images import qwen3_images, read_qwen_images  # they need Pillow

        return read_qwen_images(directory, self, qwen3_images(self.cell))

    def tensors(self, text: TextConfig) -> Tensors:
        """The tensors of the tower and its mergers."""
        width, patch = self.hidden_size, self.patch_size
        yield from affine(
            PATCHES.removesuffix(".weight"), width, 3, self.temporal_patch_size, patch, patch
        )
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
    image_tokens = replace(IMAGE_TOKENS, clip="timed")
    convolution = PATCHES
    stored_prefixes = STORED_PREFIXES
    hub_prefixes = HUB_PREFIXES

    def read(self, whole: Block) -> Architecture:
        """Read config.json.  Raises CheckpointError."""
        block = whole.block("text_config")
        block.only("model_type", ("qwen3_vl_text",), "qwen3_vl_text")
        ties = [each.flag("tie_word_embeddings", False) for each in (whole, block)]
        text = _text(block, any(ties))
        vision = _vision(whole.block("vision_config"), text)
        return Architecture(block, text, vision, whole.read("image_token_id", TokenId, 151655))


def _block(path: str, width: int, inner: int) -> Tensors:
    yield from affine(f"{path}.norm1", width)
    yield from affine(f"{path}.norm2", width)
    yield from affine(f"{path}.attn.qkv", 3 * width, width)
    yield from affine(f"{path}.attn.proj", width, width)
    yield from affine(f"{path}.mlp.linear_fc1", inner, width)
    yield from affine(f"{path}.mlp.linear_fc2", width, inner)


def _text(block: Block, tied: bool) -> TextConfig:
    defaults = replace(DEFAULTS, max_position_embeddings=128000, rope_theta=500000.0)
    text = read_qwen3(block, defaults, tied)
    rope = rope_block(block)
    rope.only("mrope_interleaved", (True,), True)
    axes = interleaved(text.head_dim // 2, read_sections(rope, SECTIONS))
    return replace(text, rotary_axes=axes)


def _vision(vision: Block, text: TextConfig) -> Qwen3VLVision:
    check_vision(vision, "qwen3_vl", "gelu_pytorch_tanh", text)
    config = vision.record(Qwen3VLVision, deepstack=[])
    deepstack = _deepstack(vision, config.depth, text)
    return replace(config, deepstack=deepstack, rope_theta=vision_theta(vision))


def _deepstack(vision: Block, depth: int, text: TextConfig) -> tuple[int, ...]:
    """The layers of the tower whose features the decoder's first layers add."""
    key, most = "deepstack_visual_indexes", text.num_hidden_layers
    kind = Annotated[tuple[Annotated[int, Range(0, depth - 1)], ...], Length(0, most)]
    layers: tuple[int, ...] = vision.read(key, kind, [8, 16, 24])
    if list(layers) != sorted({*layers}):
        raise vision.error(key, "ascending, without repetition")
    return layers
