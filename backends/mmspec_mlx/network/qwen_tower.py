"""What the towers of Qwen2.5-VL and Qwen3-VL share: patches, rotary positions, attention, mergers.

Shape letters: P patches in the order of merged blocks, N visual positions (merged blocks), D width
of the tower, H width of the decoder, W windows of S patches.
"""

from collections.abc import Callable
from dataclasses import dataclass

import mlx.core as mx
import numpy as np

from mmspec.families.qwen_patches import Places, Windows
from mmspec.families.qwen_vision import PATCHES, QwenVision
from mmspec_mlx.device.products import Biased
from mmspec_mlx.device.weights import Weights
from mmspec_mlx.network.affine import Mlp, Norm

EPSILON = 1e-6
"""Added to the variance in norms."""

Part = Biased | Norm


@dataclass(frozen=True, slots=True)
class Block:
    """One layer of the tower."""

    norm1: Norm
    qkv: Biased
    proj: Biased
    norm2: Norm
    mlp: Mlp

    @classmethod
    def take(
        cls, weights: Weights, path: str, norm: Callable[[Weights, str, float], Norm], mlp: Mlp
    ) -> "Block":
        """Take the tensors of the layer at `path`.  norm: takes that at a path."""
        return cls(
            norm(weights, f"{path}.norm1", EPSILON),
            weights.linear(f"{path}.attn.qkv"),
            weights.linear(f"{path}.attn.proj"),
            norm(weights, f"{path}.norm2", EPSILON),
            mlp,
        )

    @property
    def parts(self) -> tuple[Part, ...]:
        """All linear layers and norms, in the order of the forward pass."""
        return self.norm1, self.qkv, self.proj, self.norm2, self.mlp.first, self.mlp.second


@dataclass(frozen=True, slots=True)
class Merger:
    """Joins blocks of patches to visual positions: a norm and two linear layers."""

    width: int
    """Numbers of a block of patches."""
    norm: Norm
    mlp: Mlp
    joins_first: bool = False
    """True if the norm is over a whole block, False if it is over a patch."""

    def __call__(self, x: mx.array) -> mx.array:
        """Return embeddings [N, H] of patches [P, D]."""
        x = x.reshape(-1, self.width) if self.joins_first else x
        joined = self.norm(x).reshape(-1, self.width)
        return self.mlp(joined)

    @property
    def parts(self) -> tuple[Part, ...]:
        """All linear layers and norms, in the order of the forward pass."""
        return self.norm, self.mlp.first, self.mlp.second


class Attention:
    """Rotary positions and attention of one image's patches."""

    def __init__(self, config: QwenVision, places: Places, windows: Windows | None) -> None:
        """windows: for layers whose patches attend to those of their window alone."""
        self._config = config
        self._cos, self._sin = self._angles(places)
        self._windows = windows and [mx.array(array) for array in windows]

    def __call__(self, x: mx.array, block: Block, *, whole: bool = True) -> mx.array:
        """Add a layer's attention to x [P, D]: to the whole image, or within windows."""
        qkv = block.qkv(block.norm1(x)).reshape(len(x), 3, self._config.num_heads, -1)
        heads = self._turned(qkv[:, 0]), self._turned(qkv[:, 1]), qkv[:, 2]
        attended = self._attended(*heads) if whole else self._within_windows(*heads)
        return x + block.proj(attended.reshape(len(x), -1))

    def _attended(self, *heads: mx.array) -> mx.array:
        """Return attention [P, heads, D] of queries, keys and values [P, heads, D]."""
        query, key, value = (mx.expand_dims(part.swapaxes(0, 1), 0) for part in heads)
        scale = query.shape[-1] ** -0.5
        attended = mx.fast.scaled_dot_product_attention(query, key, value, scale=scale)
        return attended[0].swapaxes(0, 1)

    def _within_windows(self, *heads: mx.array) -> mx.array:
        assert self._windows is not None
        patches, there, back = self._windows
        query, key, value = (part[patches].swapaxes(1, 2) for part in heads)
        attended = mx.fast.scaled_dot_product_attention(
            query, key, value, scale=query.shape[-1] ** -0.5, mask=mx.expand_dims(there, (1, 2))
        )
        return mx.flatten(attended.swapaxes(1, 2), 0, 1)[back]

    def _angles(self, places: Places) -> tuple[mx.array, mx.array]:
        """Return cosines and sines [P, 1, head size] of the patches' rows and columns."""
        config = self._config
        half = config.hidden_size // config.num_heads // 2
        steps = np.arange(0, half, 2, dtype=np.float32) / np.float32(half)
        frequencies = (1 / np.float32(config.rope_theta) ** steps).astype(np.float32)
        turns = (places[..., None].astype(np.float32) * frequencies).reshape(-1, 1, half)
        both = np.concatenate([turns, turns], axis=-1)
        return mx.array(np.cos(both)), mx.array(np.sin(both))

    def _turned(self, heads: mx.array) -> mx.array:
        """Rotate heads [P, heads, D] in float32, as the reference does."""
        x = heads.astype(mx.float32)
        first, second = mx.split(x, 2, axis=-1)
        swapped = mx.concatenate([-second, first], axis=-1)
        return (x * self._cos + swapped * self._sin).astype(heads.dtype)


class Patches:
    """The convolution, whose stride is its width, as a product."""

    def __init__(self, weights: Weights, config: QwenVision, *, bias: bool) -> None:
        self._config = config
        self.weight = weights.array(PATCHES).reshape(config.hidden_size, -1)
        self.bias = weights.array(PATCHES.replace("weight", "bias")) if bias else None

    def __call__(self, pixels: mx.array) -> mx.array:
        """Cut pixel values into patches in the order of merged blocks and embed them [P, D].

        One frame, as an image is, stands for all that a patch has.
        """
        merge, size = self._config.spatial_merge_size, self._config.patch_size
        frames = self._config.temporal_patch_size
        rows, columns = (side // size // merge for side in pixels.shape[-2:])
        cut = pixels.reshape(-1, 3, rows, merge, size, columns, merge, size)
        cut = cut.transpose(2, 5, 3, 6, 1, 0, 4, 7).reshape(-1, 3, len(cut), size, size)
        shown = mx.broadcast_to(cut, (len(cut), 3, frames, size, size)).reshape(len(cut), -1)
        x = shown @ self.weight.T
        return x if self.bias is None else x + self.bias

    @property
    def arrays(self) -> list[mx.array]:
        """The weight, and the bias if there is one."""
        return [self.weight] if self.bias is None else [self.weight, self.bias]


def arrays_of(*modules: Block | Merger) -> list[mx.array]:
    """Return the tensors of modules, always in the same order."""
    return [array for module in modules for part in module.parts for array in part.arrays]
