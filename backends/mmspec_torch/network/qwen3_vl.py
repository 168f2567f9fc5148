"""Qwen3-VL's tower and mergers.

Shape letters: P patches in the order of merged blocks, N visual positions (merged blocks), D width
of the tower, H width of the decoder, L layers of DeepStack.
"""

from dataclasses import dataclass
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor

from mmspec.families.qwen3_vl import PATCHES, Qwen3VLVision
from mmspec.families.qwen_patches import Layout, layout
from mmspec_torch.network.affine import Affine, Linear, linear
from mmspec_torch.network.vision import TorchFeatures
from mmspec_torch.weights import Weights

EPSILON = 1e-6
"""Added to the variance in layer norms."""

gelu_tanh = partial(F.gelu, approximate="tanh")


@dataclass(frozen=True, slots=True)
class Block:
    """One layer of the tower."""

    norm1: Affine
    qkv: Linear
    proj: Linear
    norm2: Affine
    fc1: Linear
    fc2: Linear

    @classmethod
    def take(cls, weights: Weights, path: str) -> "Block":
        """Take the tensors of the layer at `path`."""
        return cls(
            Affine.take(weights, f"{path}.norm1"),
            linear(weights, f"{path}.attn.qkv"),
            linear(weights, f"{path}.attn.proj"),
            Affine.take(weights, f"{path}.norm2"),
            linear(weights, f"{path}.mlp.linear_fc1"),
            linear(weights, f"{path}.mlp.linear_fc2"),
        )

    @property
    def parts(self) -> tuple[Linear, ...]:
        """All linear layers and norms, in the order of the forward pass."""
        return self.norm1, self.qkv, self.proj, self.norm2, self.fc1, self.fc2


@dataclass(frozen=True, slots=True)
class Merger:
    """Joins blocks of patches to visual positions: a norm and two linear layers."""

    width: int
    """Numbers of a block of patches."""
    joins_first: bool
    """True if the norm is over a whole block, False if it is over a patch."""
    norm: Affine
    fc1: Linear
    fc2: Linear

    @classmethod
    def take(cls, weights: Weights, path: str, width: int, *, joins_first: bool) -> "Merger":
        """Take the tensors of the merger at `path`."""
        layers = (linear(weights, f"{path}.linear_fc{number}") for number in (1, 2))
        return cls(width, joins_first, Affine.take(weights, f"{path}.norm"), *layers)

    def __call__(self, x: Tensor) -> Tensor:
        """Return embeddings [N, H] of patches [P, D]."""
        x = x.reshape(-1, self.width) if self.joins_first else x
        joined = self.norm.norm(x, EPSILON).reshape(-1, self.width)
        return self.fc2(F.gelu(self.fc1(joined)))

    @property
    def parts(self) -> tuple[Linear, ...]:
        """All linear layers and norms, in the order of the forward pass."""
        return self.norm, self.fc1, self.fc2


class Qwen3VL:
    """Implements `mmspec_torch.network.vision.Vision`.

    Features [N, (1 + L) H] are embeddings, then what each layer of DeepStack adds.
    """

    def __init__(self, weights: Weights, config: Qwen3VLVision) -> None:
        self.settings, self._config = repr(config), config
        self._patches = weights.take(PATCHES).flatten(1)
        self._bias = weights.take(PATCHES.replace("weight", "bias"))
        self._places = weights.take("vision_tower.pos_embed.weight")
        paths = (f"vision_tower.blocks.{index}" for index in range(config.depth))
        self._blocks = [Block.take(weights, path) for path in paths]
        take = partial(Merger.take, weights, width=config.merged_size)
        self._merger = take("vision_tower.merger", joins_first=False)
        paths = (f"vision_tower.deepstack_merger_list.{n}" for n in range(len(config.deepstack)))
        extra = (take(path, joins_first=True) for path in paths)
        self._deepstack = dict(zip(config.deepstack, extra, strict=True))

    def encode(self, pixels: Tensor) -> TorchFeatures:
        """Run the tower on pixel values [3, height, width]."""
        sides = pixels.shape[1], pixels.shape[2]
        patches = layout(self._config, *sides)
        x = self._embed(pixels, patches)
        angles, extra = self._angles(patches), list[Tensor]()
        for index, block in enumerate(self._blocks):
            x = self._attend(x, block, *angles)
            x = x + block.fc2(gelu_tanh(block.fc1(block.norm2.norm(x, EPSILON))))
            if index in self._deepstack:
                extra.append(self._deepstack[index](x))
        rows = torch.cat((self._merger(x), *extra), dim=1)
        return TorchFeatures(rows, self._config.grid(*sides))

    def place(self, rows: Tensor) -> Tensor:
        """Return features [N, W] themselves: the mergers have projected them."""
        return rows

    @property
    def tensors(self) -> list[Tensor]:
        """The tower's tensors, always in the same order."""
        modules: list[Block | Merger] = [*self._blocks, self._merger, *self._deepstack.values()]
        parts = [part for module in modules for part in module.parts]
        flat = [tensor for part in parts for tensor in part.tensors]
        return [self._patches, self._bias, self._places, *flat]

    def _embed(self, pixels: Tensor, patches: Layout) -> Tensor:
        """Embed patches, cut in the order of merged blocks, and their places."""
        config = self._config
        merge, size = config.spatial_merge_size, config.patch_size
        rows, columns = (side // size // merge for side in pixels.shape[1:])
        cut = pixels.reshape(3, rows, merge, size, columns, merge, size)
        cut = cut.permute(1, 4, 2, 5, 0, 3, 6).reshape(-1, 3, 1, size, size)
        frames = cut.expand(-1, -1, config.temporal_patch_size, -1, -1)
        x = F.linear(frames.reshape(len(cut), -1), self._patches, self._bias)
        neighbours, weights = self._uploaded(patches.neighbours), self._uploaded(patches.weights)
        places = (self._places[neighbours] * weights.unsqueeze(-1)).sum(1)
        return x + places.to(x.dtype)

    def _angles(self, patches: Layout) -> tuple[Tensor, Tensor]:
        """Return cosines and sines [P, 1, head size] of the patches' rows and columns."""
        config = self._config
        half = config.hidden_size // config.num_heads // 2
        steps = torch.arange(0, half, 2, device=self._patches.device).float() / half
        frequencies = 1.0 / config.rope_theta**steps
        places = self._uploaded(patches.places).float()
        turns = (places.unsqueeze(-1) * frequencies).flatten(1).unsqueeze(1)
        return turns.cos().repeat(1, 1, 2), turns.sin().repeat(1, 1, 2)

    def _attend(self, x: Tensor, block: Block, cos: Tensor, sin: Tensor) -> Tensor:
        qkv = block.qkv(block.norm1.norm(x, EPSILON))
        query, key, value = qkv.view(len(x), 3, self._config.num_heads, -1).unbind(1)
        turned = [_rotated(part, cos, sin) for part in (query, key)]
        query, key, value = (part.transpose(0, 1).unsqueeze(0) for part in (*turned, value))
        attended = F.scaled_dot_product_attention(query, key, value)[0]
        return x + block.proj(attended.transpose(0, 1).flatten(1))

    def _uploaded(self, array: object) -> Tensor:
        return torch.as_tensor(array, device=self._patches.device)


def _rotated(heads: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotate heads [P, heads, D] in float32, as the reference does."""
    x = heads.float()
    first, second = x.chunk(2, dim=-1)
    return (x * cos + torch.cat((-second, first), dim=-1) * sin).to(heads.dtype)
