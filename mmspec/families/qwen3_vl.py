"""Qwen3-VL: a tower of any resolution, DeepStack, and Qwen3 with interleaved M-RoPE.

DeepStack: the decoder's first layers add features of the tower's layers to their outputs. Shape
letters: P patches of one image, N visual positions, H width of the decoder, L layers of DeepStack.
"""

from dataclasses import dataclass, replace
from math import isqrt
from pathlib import Path
from typing import Annotated

import numpy as np
from numpy.typing import NDArray

from mmspec.families.decoder import Layers, TextConfig, Width, interleaved_axes
from mmspec.families.qwen_images import QwenImages, read_qwen_images
from mmspec.families.qwen_vision import EPSILON, Patches, QwenTower, QwenVision, Small, qwen_family
from mmspec.families.text_families import QWEN3_SIZES, read_qwen3
from mmspec.families.tower import Array, Map, TowerParts, cast, full_attention, mlp
from mmspec.ground.json_file import Block, Length, Range

SECTIONS = (24, 20, 20)
"""Frequencies that turn by time, row and column if the config names none."""


@dataclass(frozen=True)
class Qwen3VLVision(QwenVision):
    """Qwen3-VL's tower and mergers."""

    activation = "gelu_pytorch_tanh"
    hidden_size: Width = 1152
    intermediate_size: Width = 4304
    depth: Layers = 27
    patch_size: Small = 16
    num_position_embeddings: Width = 2304
    deepstack: tuple[int, ...] = (8, 16, 24)
    """Layers of the tower after which DeepStack's features are taken."""

    @property
    def side(self) -> int:
        """Number of position embeddings along one side of their grid."""
        return isqrt(self.num_position_embeddings)

    @property
    def image_size(self) -> int:
        """Side of a square picture whose patches are the grid of position embeddings."""
        return self.side * self.patch_size // self.cell * self.cell

    def preprocessing(self, directory: Path) -> QwenImages:
        """As it was published, or with a checkpoint's settings.  Raises CheckpointError."""
        clips = QwenImages(self.cell, 4096, 24576 * self.cell**2, together=True)
        return read_qwen_images(directory, self, QwenImages(self.cell, clips=clips))

    def tower(self, parts: TowerParts, text: TextConfig) -> "Qwen3VLTower":
        """Take the tower and its mergers."""
        return Qwen3VLTower(self, parts, text.hidden_size)


class Qwen3VLTower(QwenTower):
    """The tower; features [N, (1 + L) H] are embeddings, then what each layer of DeepStack adds."""

    def __init__(self, config: Qwen3VLVision, parts: TowerParts, text_width: int) -> None:
        names = "linear_fc1", "linear_fc2"
        super().__init__(config, parts, parts.layer_norm, parts.gelu_tanh, *names, bias=True)
        self._config, width, count = config, config.hidden_size, config.num_position_embeddings
        self._embeddings = parts.tensor("vision_tower.pos_embed.weight", count, width)
        self._merge = _merger(config, parts, "vision_tower.merger", width, text_width)
        paths = (f"vision_tower.deepstack_merger_list.{n}" for n in range(len(config.deepstack)))
        mergers = (_merger(config, parts, path, config.merged_size, text_width) for path in paths)
        self._deepstack = dict(zip(config.deepstack, mergers, strict=True))

    def encode(self, pixels: Array) -> Array:
        """Features [N, (1 + L) H] of pixel values [3, height, width], or [2, 3, height, width]."""
        parts, attend, additions = self._parts, full_attention(self._parts), []
        positions, rotate, x = self._begin(pixels)
        x = x + cast(parts.xp, self._embed(positions), x.dtype)
        for index, layer in enumerate(self._layers):
            x = layer(x, attend, rotate)
            if index in self._deepstack:
                additions.append(self._deepstack[index](x))
        return parts.xp.concat([self._merge(x), *additions], axis=1)

    def _embed(self, positions: Patches) -> Array:
        """The position embeddings [P, D] of patches, by bilinear interpolation in a square grid."""
        side = self._config.side
        down, down_shares = _nearest(positions[:, 0], side)
        across, across_shares = _nearest(positions[:, 1], side)
        index = (down[:, :, None] * side + across[:, None]).reshape(-1, 4)
        shares = (down_shares[:, :, None] * across_shares[:, None]).reshape(-1, 4)
        rows, weights = self._parts.upload(index), self._parts.upload(shares)  # [P, 4] both
        return (self._embeddings[rows] * weights[..., None]).sum(axis=1)


def _merger(config: Qwen3VLVision, parts: TowerParts, path: str, norm: int, out: int) -> Map:
    """Take a merger; norm: width of its norm, that of a patch or of a block of patches."""
    width = config.merged_size
    normalise = parts.layer_norm(f"{path}.norm", norm, EPSILON)
    first = parts.linear(width, width, f"{path}.linear_fc1")
    merge = mlp(first, parts.gelu, parts.linear(width, out, f"{path}.linear_fc2"))
    return lambda x: merge(normalise(x.reshape(-1, norm)).reshape(-1, width))


def _nearest(index: NDArray[np.int64], side: int) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """The two nearest of `side` embeddings for positions [P] of one axis, and their shares."""
    places = index.astype(np.float32) * np.float32(side - 1) / np.float32(max(index.max(), 1))
    below = np.floor(places)
    share = np.stack([1 - (places - below), places - below], axis=1)
    nearest = below.astype(np.int64)[:, None] + np.arange(2)
    return nearest.clip(0, side - 1), share.astype(np.float32)


def _text(block: Block) -> TextConfig:
    defaults = replace(QWEN3_SIZES, max_position_embeddings=128000, rope_theta=500000.0)
    text = read_qwen3(block, defaults)
    return replace(text, rotary_axes=interleaved_axes(block, text.head_dim // 2, SECTIONS))


def _vision(vision: Block, text: TextConfig) -> Qwen3VLVision:
    config = Qwen3VLVision.read(vision, "qwen3_vl", text)
    key, most = "deepstack_visual_indexes", text.num_hidden_layers
    kind = Annotated[tuple[Annotated[int, Range(0, config.depth - 1)], ...], Length(0, most)]
    layers = vision.read(key, kind, [8, 16, 24])
    if list(layers) != sorted({*layers}):
        raise vision.error(key, "ascending, without repetition")
    return replace(config, deepstack=layers)


QWEN3_VL = qwen_family("qwen3_vl", "timed", _text, _vision, 151655)
