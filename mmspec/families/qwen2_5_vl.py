"""Qwen2.5-VL: a tower of any resolution, whose patches attend in windows, and Qwen2 with M-RoPE.

Shape letters: P patches of one image, N visual positions, W windows of S patches.
"""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import numpy as np

from mmspec.families.clip_images import CLIP
from mmspec.families.decoder import TextConfig, Width, chunked_axes
from mmspec.families.grid import PlaneGrid
from mmspec.families.qwen_images import QwenImages, read_qwen_images
from mmspec.families.qwen_vision import EPSILON, Patches, QwenTower, QwenVision, qwen_family
from mmspec.families.text_families import QWEN2_SIZES, read_qwen2
from mmspec.families.tower import Array, Attend, TowerParts, full_attention, mlp
from mmspec.ground.json_file import Block, Range

WINDOWS = 4
"""Windows along a side of a square picture, where one is drawn for the tower."""


@dataclass(frozen=True)
class Qwen25VLVision(QwenVision):
    """Qwen2.5-VL's tower and merger."""

    activation = "silu"
    window_size: Width = 112
    """Side in pixels of a window; patches attend to those of their window alone."""
    fullatt_block_indexes: tuple[Annotated[int, Range(0, 1000)], ...] = (7, 15, 23, 31)
    """Layers whose patches attend to the whole image."""
    tokens_per_second: Annotated[int, Range(0, 100)] = 4
    """Rotary positions in time of a second."""

    @property
    def window(self) -> int:
        """Side of a window in patches."""
        return self.window_size // self.cell * self.spatial_merge_size

    @property
    def image_size(self) -> int:
        """Side of a square picture that windows fill."""
        return WINDOWS * self.window * self.patch_size

    def grid(self, height: int, width: int, moment: int = 0, step: float = 0.0) -> PlaneGrid:
        """The visual positions of pixel values; a moment's time is in its rotary positions."""
        before = self._time(moment - 1, step) if moment else None
        time = self._time(moment, step)
        return replace(super().grid(height, width), time=time, before=before)

    def _time(self, moment: int, step: float) -> int:
        """The rotary position in time of a moment, in float32 as transformers computes it."""
        return int(np.float32(moment) * np.float32(self.tokens_per_second * step))

    def preprocessing(self, directory: Path) -> QwenImages:
        """As it was published, or with a checkpoint's settings.  Raises CheckpointError."""
        images = QwenImages(self.cell, 4 * self.cell**2, 16384 * self.cell**2, values=CLIP)
        return read_qwen_images(directory, self, replace(images, clips=images))

    def tower(self, parts: TowerParts, text: TextConfig) -> "Qwen25VLTower":
        """Take the tower and its merger."""
        return Qwen25VLTower(self, parts, text.hidden_size)


class Qwen25VLTower(QwenTower):
    """The tower; features [N, H] are embeddings."""

    def __init__(self, config: Qwen25VLVision, parts: TowerParts, text_width: int) -> None:
        def swiglu(x: Array) -> Array:
            width = x.shape[-1] // 2
            return parts.silu(x[:, :width]) * x[:, width:]

        names = "gate_proj", "up_proj", "down_proj"
        super().__init__(config, parts, parts.rms_norm, swiglu, *names)
        self._config, width = config, config.merged_size
        self._norm = parts.rms_norm("vision_tower.merger.ln_q", config.hidden_size, EPSILON)
        first = parts.linear(width, width, "vision_tower.merger.mlp.0")
        second = parts.linear(width, text_width, "vision_tower.merger.mlp.2")
        self._merge = mlp(first, parts.gelu, second)

    def encode(self, pixels: Array) -> Array:
        """Embeddings [N, H] of pixel values [3, height, width], or [2, 3, height, width]."""
        config, parts = self._config, self._parts
        positions, rotate, x = self._begin(pixels)
        full = full_attention(parts)
        in_windows = _window_attention(parts, positions, config.window)
        for index, layer in enumerate(self._layers):
            attend = full if index in config.fullatt_block_indexes else in_windows
            x = layer(x, attend, rotate)
        return self._merge(self._norm(x).reshape(-1, config.merged_size))


def _window_attention(parts: TowerParts, positions: Patches, side: int) -> Attend:
    """Attention of every row to those of its window; windows at the edges may have fewer.

    side: that of a window in patches.
    """
    rows, columns = (positions // side).T
    numbers = rows * (columns.max() + 1) + columns
    sizes, order = np.bincount(numbers), np.argsort(numbers, kind="stable")
    filled = np.arange(sizes.max()) < sizes[:, None]  # [W, S] where a window has a patch
    index = np.zeros(filled.shape, dtype=np.int64)  # [W, S] its number
    index[filled] = order
    places = np.flatnonzero(filled)[np.argsort(order)]  # [P] of each patch among the W * S
    patches, is_patch, back = map(parts.upload, (index, filled, places))

    def attend(*heads: Array) -> Array:
        query, key, value = (rows[patches] for rows in heads)
        output = parts.attention(query, key, value, is_patch)
        return output.reshape(-1, output.shape[-1])[back]

    return attend


TEXT = replace(
    QWEN2_SIZES,
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
SECTIONS = (16, 24, 24)
"""Frequencies that turn by time, row and column if the config names none."""


def _text(block: Block) -> TextConfig:
    text = read_qwen2(block, TEXT, ("default", "mrope"))
    return replace(text, rotary_axes=chunked_axes(block, text.head_dim, SECTIONS))


def _vision(vision: Block, text: TextConfig) -> Qwen25VLVision:
    config = Qwen25VLVision.read(vision, "qwen2_5_vl", text)
    if not config.window:
        raise vision.error("window_size", f"{config.cell} or more, the side of a merged block")
    return config


QWEN2_5_VL = qwen_family("qwen2_5_vl", "moments", _text, _vision, 151655, is_flat=True)
