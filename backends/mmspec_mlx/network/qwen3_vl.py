"""Qwen3-VL's tower and mergers.

Shape letters: P patches in the order of merged blocks, N visual positions (merged blocks), D width
of the tower, H width of the decoder, L layers of DeepStack.
"""

from dataclasses import dataclass
from functools import partial

import mlx.core as mx
import numpy as np

from mmspec.families.qwen3_vl import PATCHES, Qwen3VLVision
from mmspec.families.qwen_patches import Layout, layout
from mmspec_mlx.cpu.products import Biased
from mmspec_mlx.network.affine import LayerNorm, gelu, gelu_tanh, layer_norm
from mmspec_mlx.network.vision import MlxFeatures
from mmspec_mlx.weights import Weights

EPSILON = 1e-6
"""Added to the variance in layer norms."""


@dataclass(frozen=True, slots=True)
class Block:
    """One layer of the tower."""

    norm1: LayerNorm
    qkv: Biased
    proj: Biased
    norm2: LayerNorm
    fc1: Biased
    fc2: Biased

    @classmethod
    def take(cls, weights: Weights, path: str) -> "Block":
        """Take the tensors of the layer at `path`."""
        return cls(
            layer_norm(weights, f"{path}.norm1", EPSILON),
            weights.linear(f"{path}.attn.qkv"),
            weights.linear(f"{path}.attn.proj"),
            layer_norm(weights, f"{path}.norm2", EPSILON),
            weights.linear(f"{path}.mlp.linear_fc1"),
            weights.linear(f"{path}.mlp.linear_fc2"),
        )

    @property
    def parts(self) -> tuple[LayerNorm | Biased, ...]:
        """All linear layers and norms, in the order of the forward pass."""
        return self.norm1, self.qkv, self.proj, self.norm2, self.fc1, self.fc2


@dataclass(frozen=True, slots=True)
class Merger:
    """Joins blocks of patches to visual positions: a norm and two linear layers."""

    width: int
    """Numbers of a block of patches."""
    joins_first: bool
    """True if the norm is over a whole block, False if it is over a patch."""
    norm: LayerNorm
    fc1: Biased
    fc2: Biased

    @classmethod
    def take(cls, weights: Weights, path: str, width: int, *, joins_first: bool) -> "Merger":
        """Take the tensors of the merger at `path`."""
        layers = (weights.linear(f"{path}.linear_fc{number}") for number in (1, 2))
        return cls(width, joins_first, layer_norm(weights, f"{path}.norm", EPSILON), *layers)

    def __call__(self, x: mx.array) -> mx.array:
        """Return embeddings [N, H] of patches [P, D]."""
        x = x.reshape(-1, self.width) if self.joins_first else x
        joined = self.norm(x).reshape(-1, self.width)
        return self.fc2(gelu(self.fc1(joined)))

    @property
    def parts(self) -> tuple[LayerNorm | Biased, ...]:
        """All linear layers and norms, in the order of the forward pass."""
        return self.norm, self.fc1, self.fc2


class Qwen3VL:
    """Implements `mmspec_mlx.network.vision.Vision`.

    Features [N, (1 + L) H] are embeddings, then what each layer of DeepStack adds.
    """

    def __init__(self, weights: Weights, config: Qwen3VLVision) -> None:
        self.settings, self._config = repr(config), config
        self._patches = weights.array(PATCHES).reshape(config.hidden_size, -1)
        self._bias = weights.array(PATCHES.replace("weight", "bias"))
        self._places = weights.array("vision_tower.pos_embed.weight")
        paths = (f"vision_tower.blocks.{index}" for index in range(config.depth))
        self._blocks = [Block.take(weights, path) for path in paths]
        take = partial(Merger.take, weights, width=config.merged_size)
        self._merger = take("vision_tower.merger", joins_first=False)
        paths = (f"vision_tower.deepstack_merger_list.{n}" for n in range(len(config.deepstack)))
        extra = (take(path, joins_first=True) for path in paths)
        self._deepstack = dict(zip(config.deepstack, extra, strict=True))

    def encode(self, pixels: mx.array) -> MlxFeatures:
        """Run the tower on pixel values [3, height, width]."""
        sides = pixels.shape[1], pixels.shape[2]
        patches = layout(self._config, *sides)
        x = self._embed(pixels, patches)
        angles, extra = self._angles(patches), list[mx.array]()
        for index, block in enumerate(self._blocks):
            x = self._attend(x, block, *angles)
            x = x + block.fc2(gelu_tanh(block.fc1(block.norm2(x))))
            if index in self._deepstack:
                extra.append(self._deepstack[index](x))
        rows = mx.concatenate([self._merger(x), *extra], axis=1)
        return MlxFeatures(rows, self._config.grid(*sides))

    def place(self, rows: mx.array) -> mx.array:
        """Return features [N, W] themselves: the mergers have projected them."""
        return rows

    @property
    def tensors(self) -> list[mx.array]:
        """The tower's tensors, always in the same order."""
        modules: list[Block | Merger] = [*self._blocks, self._merger, *self._deepstack.values()]
        parts = [part for module in modules for part in module.parts]
        flat = [tensor for part in parts for tensor in part.arrays]
        return [self._patches, self._bias, self._places, *flat]

    def _embed(self, pixels: mx.array, patches: Layout) -> mx.array:
        """Embed patches, cut in the order of merged blocks, and their places."""
        config = self._config
        merge, size, frames = (
            config.spatial_merge_size,
            config.patch_size,
            config.temporal_patch_size,
        )
        rows, columns = (side // size // merge for side in pixels.shape[1:])
        cut = pixels.reshape(3, rows, merge, size, columns, merge, size)
        cut = cut.transpose(1, 4, 2, 5, 0, 3, 6).reshape(-1, 3, 1, size, size)
        shown = mx.broadcast_to(cut, (len(cut), 3, frames, size, size)).reshape(len(cut), -1)
        x = shown @ self._patches.T + self._bias
        near = self._places[mx.array(patches.neighbours)]
        places = (near * mx.expand_dims(mx.array(patches.weights), -1)).sum(axis=1)
        return x + places.astype(x.dtype)

    def _angles(self, patches: Layout) -> tuple[mx.array, mx.array]:
        """Return cosines and sines [P, 1, head size] of the patches' rows and columns."""
        config = self._config
        half = config.hidden_size // config.num_heads // 2
        steps = np.arange(0, half, 2, dtype=np.float32) / np.float32(half)
        frequencies = (1 / np.float32(config.rope_theta) ** steps).astype(np.float32)
        turns = (patches.places[..., None].astype(np.float32) * frequencies).reshape(-1, 1, half)
        both = np.concatenate([turns, turns], axis=-1)
        return mx.array(np.cos(both)), mx.array(np.sin(both))

    def _attend(self, x: mx.array, block: Block, cos: mx.array, sin: mx.array) -> mx.array:
        heads = self._config.num_heads
        qkv = block.qkv(block.norm1(x)).reshape(len(x), 3, heads, -1)
        turned = [_rotated(qkv[:, part], cos, sin) for part in (0, 1)]
        query, key, value = (
            mx.expand_dims(part.swapaxes(0, 1), 0) for part in (*turned, qkv[:, 2])
        )
        scale = (self._config.hidden_size // heads) ** -0.5
        attended = mx.fast.scaled_dot_product_attention(query, key, value, scale=scale)[0]
        return x + block.proj(attended.swapaxes(0, 1).reshape(len(x), -1))


def _rotated(heads: mx.array, cos: mx.array, sin: mx.array) -> mx.array:
    """Rotate heads [P, heads, D] in float32, as the reference does."""
    x = heads.astype(mx.float32)
    first, second = mx.split(x, 2, axis=-1)
    swapped = mx.concatenate([-second, first], axis=-1)
    return (x * cos + swapped * sin).astype(heads.dtype)
