"""Qwen2.5-VL: a tower of any resolution, whose patches attend in windows, and Qwen2 with M-RoPE."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from mmspec.families.decoder import TextConfig, TokenId, Width
from mmspec.families.family import Architecture
from mmspec.families.grid import PlaneGrid
from mmspec.families.qwen2 import DEFAULTS, read_qwen2_vl
from mmspec.families.qwen_vision import (
    HUB_PREFIXES,
    IMAGE_TOKENS,
    PATCHES,
    STORED_PREFIXES,
    QwenVision,
    check_vision,
    vision_theta,
)
from mmspec.families.tensors import Tensors, affine
from mmspec.ground.json_file import Block
from mmspec.ground.limits import Range

if TYPE_CHECKING:
    from mmspec.families.qwen_images import QwenImages

Rate = Annotated[int, Range(0, 100)]

WINDOWS = 4
"""Windows along a side of a square picture, where one is drawn for the tower."""


@dataclass(frozen=True)
class Qwen25VLVision(QwenVision):
    """Qwen2.5-VL's tower and merger."""

    window_size: Width = 112
    """Side in pixels of a window; patches attend to those of their window alone."""
    fullatt_block_indexes: tuple[int, ...] = (7, 15, 23, 31)
    """Layers whose patches attend to the whole image."""
    tokens_per_second: Rate = 4
    """Rotary positions in time of a second."""

    @property
    def window(self) -> int:
        """Side of a window in patches."""
        return self.window_size // self.cell * self.spatial_merge_size

    @property
    def image_size(self) -> int:
        """Side of a square picture that windows fill."""
        return WINDOWS * self.window * self.patch_size

    def moment_grid(self, height: int, width: int, place: int, step: float) -> PlaneGrid:
        """The visual positions of a clip's moment: its time is in its rotary positions."""
        times = [self._time(number, step) for number in (place - 1, place)]
        before = times[0] if place else None
        return replace(self.grid(height, width), time=times[1], before=before)

    def _time(self, place: int, step: float) -> int:
        """The rotary position in time of a moment, in float32 as transformers computes it."""
        import numpy as np  # a config is read without it

        return int(np.float32(place) * np.float32(self.tokens_per_second * step))

    def preprocessing(self, directory: Path) -> "QwenImages":
        """Qwen's preprocessing with a checkpoint's settings.  Raises CheckpointError."""
        from mmspec.families.qwen_images import qwen2_images, read_qwen_images  # they need Pillow

        return read_qwen_images(directory, self, qwen2_images(self.cell))

    def tensors(self, text: TextConfig) -> Tensors:
        """The tensors of the tower and its merger."""
        width, patch = self.hidden_size, self.patch_size
        yield PATCHES, (width, 3, self.temporal_patch_size, patch, patch), True
        for layer in range(self.depth):
            yield from _block(f"vision_tower.blocks.{layer}", width, self.intermediate_size)
        yield "vision_tower.merger.ln_q.weight", (width,), True
        yield from affine("vision_tower.merger.mlp.0", self.merged_size, self.merged_size)
        yield from affine("vision_tower.merger.mlp.2", text.hidden_size, self.merged_size)


class Qwen25VL:
    """Implements `mmspec.families.family.Family`."""

    model_type = "qwen2_5_vl"
    image_tokens = replace(IMAGE_TOKENS, clip="moments")
    convolution = PATCHES
    stored_prefixes = STORED_PREFIXES
    hub_prefixes = HUB_PREFIXES

    def read(self, whole: Block) -> Architecture:
        """Read config.json, where the hub's files have the decoder's keys among the others.

        Raises CheckpointError.
        """
        block = whole.block("text_config") if whole.get("text_config") else whole
        kinds = self.model_type, f"{self.model_type}_text"
        block.only("model_type", kinds, kinds[1])
        ties = [each.flag("tie_word_embeddings", False) for each in (whole, block)]
        text = read_qwen2_vl(block, TEXT, any(ties))
        vision = _vision(whole.block("vision_config"), text)
        return Architecture(block, text, vision, whole.read("image_token_id", TokenId, 151655))


TEXT = replace(
    DEFAULTS,
    hidden_size=8192,
    intermediate_size=29568,
    num_hidden_layers=80,
    num_attention_heads=64,
    num_key_value_heads=8,
    vocab_size=152064,
    rms_norm_eps=1e-5,
    rope_theta=1e6,
)
"""Transformers' sizes of a Qwen2.5-VL's decoder whose config names none."""


def _block(path: str, width: int, inner: int) -> Tensors:
    yield f"{path}.norm1.weight", (width,), True
    yield f"{path}.norm2.weight", (width,), True
    yield from affine(f"{path}.attn.qkv", 3 * width, width)
    yield from affine(f"{path}.attn.proj", width, width)
    yield from affine(f"{path}.mlp.gate_proj", inner, width)
    yield from affine(f"{path}.mlp.up_proj", inner, width)
    yield from affine(f"{path}.mlp.down_proj", width, inner)


def _vision(vision: Block, text: TextConfig) -> Qwen25VLVision:
    check_vision(vision, "qwen2_5_vl", "silu", text)
    config = vision.record(Qwen25VLVision, hidden_size=3584)
    if not config.window:
        raise vision.error("window_size", f"{config.cell} or more, the side of a merged block")
    kind = tuple[Annotated[int, Range(0, 1000)], ...]
    whole: tuple[int, ...] = vision.read("fullatt_block_indexes", kind, [7, 15, 23, 31])
    return replace(config, fullatt_block_indexes=whole, rope_theta=vision_theta(vision))
