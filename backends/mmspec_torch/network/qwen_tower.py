"""What the towers of Qwen2.5-VL and Qwen3-VL share: patches, rotary positions, attention, mergers.

Shape letters: P patches in the order of merged blocks, N visual positions (merged blocks), D width
of the tower, H width of the decoder, W windows of S patches.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from mmspec.families.qwen_patches import Places, Windows
from mmspec.families.qwen_vision import PATCHES, QwenVision
from mmspec_torch.device.weights import Weights
from mmspec_torch.network.affine import Linear, Mlp, Norm, linear

EPSILON = 1e-6
"""Added to the variance in norms."""

Part = Linear | Norm


@dataclass(frozen=True, slots=True)
class Block:
    """One layer of the tower."""

    norm1: Norm
    qkv: Linear
    proj: Linear
    norm2: Norm
    mlp: Mlp

    @classmethod
    def take(
        cls, weights: Weights, path: str, norm: Callable[[Weights, str, float], Norm], mlp: Mlp
    ) -> "Block":
        """Take the tensors of the layer at `path`.  norm: takes that at a path."""
        return cls(
            norm(weights, f"{path}.norm1", EPSILON),
            linear(weights, f"{path}.attn.qkv"),
            linear(weights, f"{path}.attn.proj"),
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

    def __call__(self, x: Tensor) -> Tensor:
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

    def __init__(
        self, config: QwenVision, places: Places, device: torch.device, windows: Windows | None
    ) -> None:
        """windows: for layers whose patches attend to those of their window alone."""
        self._config, self._device = config, device
        self._cos, self._sin = self._angles(places)
        self._windows = windows and [self._uploaded(array) for array in windows]

    def __call__(self, x: Tensor, block: Block, *, whole: bool = True) -> Tensor:
        """Add a layer's attention to x [P, D]: to the whole image, or within windows."""
        qkv = block.qkv(block.norm1(x))
        query, key, value = qkv.view(len(x), 3, self._config.num_heads, -1).unbind(1)
        heads = self._turned(query), self._turned(key), value
        attended = _attended(*heads) if whole else self._within_windows(*heads)
        return x + block.proj(attended.flatten(1))

    def _within_windows(self, *heads: Tensor) -> Tensor:
        assert self._windows is not None
        patches, there, back = self._windows
        query, key, value = (part[patches].transpose(1, 2) for part in heads)
        mask = there[:, None, None]
        attended = F.scaled_dot_product_attention(query, key, value, attn_mask=mask)
        return attended.transpose(1, 2).flatten(0, 1)[back]

    def _angles(self, places: Places) -> tuple[Tensor, Tensor]:
        """Return cosines and sines [P, 1, head size] of the patches' rows and columns."""
        config = self._config
        half = config.hidden_size // config.num_heads // 2
        steps = torch.arange(0, half, 2, device=self._device).float() / half
        frequencies = 1.0 / config.rope_theta**steps
        turns = (self._uploaded(places).float().unsqueeze(-1) * frequencies).flatten(1).unsqueeze(1)
        return turns.cos().repeat(1, 1, 2), turns.sin().repeat(1, 1, 2)

    def _turned(self, heads: Tensor) -> Tensor:
        """Rotate heads [P, heads, D] in float32, as the reference does."""
        x = heads.float()
        first, second = x.chunk(2, dim=-1)
        return (x * self._cos + torch.cat((-second, first), dim=-1) * self._sin).to(heads.dtype)

    def _uploaded(self, array: object) -> Tensor:
        return torch.as_tensor(array, device=self._device)


def _attended(*heads: Tensor) -> Tensor:
    """Return attention [P, heads, D] of queries, keys and values [P, heads, D]."""
    query, key, value = (part.transpose(0, 1).unsqueeze(0) for part in heads)
    return F.scaled_dot_product_attention(query, key, value)[0].transpose(0, 1)


class Patches:
    """The convolution, whose stride is its width, as a product."""

    def __init__(self, weights: Weights, config: QwenVision, *, bias: bool) -> None:
        self._config = config
        self.weight = weights.take(PATCHES).flatten(1)
        self.bias = weights.take(PATCHES.replace("weight", "bias")) if bias else None

    def __call__(self, pixels: Tensor) -> Tensor:
        """Cut pixel values into patches in the order of merged blocks and embed them [P, D].

        One frame, as an image is, stands for all that a patch has.
        """
        merge, size = self._config.spatial_merge_size, self._config.patch_size
        rows, columns = (side // size // merge for side in pixels.shape[-2:])
        cut = pixels.reshape(-1, 3, rows, merge, size, columns, merge, size)
        cut = cut.permute(2, 5, 3, 6, 1, 0, 4, 7).reshape(-1, 3, len(cut), size, size)
        frames = cut.expand(-1, -1, self._config.temporal_patch_size, -1, -1)
        return F.linear(frames.reshape(len(cut), -1), self.weight, self.bias)

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        """The weight, and the bias if there is one."""
        return (self.weight,) if self.bias is None else (self.weight, self.bias)


def tensors_of(*modules: Block | Merger) -> list[Tensor]:
    """Return the tensors of modules, always in the same order."""
    return [tensor for module in modules for part in module.parts for tensor in part.tensors]
