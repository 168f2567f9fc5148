"""Qwen3-VL's tower and mergers.

Shape letters: P patches in the order of merged blocks, N visual positions (merged blocks), D width
of the tower, H width of the decoder, L layers of DeepStack.
"""

import torch
from torch import Tensor

from mmspec.families.qwen3_vl import Qwen3VLVision
from mmspec.families.qwen_patches import Places, neighbours, places
from mmspec_torch.device.weights import Weights
from mmspec_torch.network.affine import Activation, Mlp, gelu, gelu_tanh, layer_norm, linear
from mmspec_torch.network.qwen_tower import (
    EPSILON,
    Attention,
    Block,
    Merger,
    Patches,
    tensors_of,
)
from mmspec_torch.network.vision import TorchFeatures


class Qwen3VL:
    """Implements `mmspec_torch.network.vision.Vision`.

    Features [N, (1 + L) H] are embeddings, then what each layer of DeepStack adds.
    """

    def __init__(self, weights: Weights, config: Qwen3VLVision) -> None:
        self.settings, self._config = repr(config), config
        self._patches = Patches(weights, config, bias=True)
        self._places = weights.take("vision_tower.pos_embed.weight")
        paths = (f"vision_tower.blocks.{index}" for index in range(config.depth))
        self._blocks = [
            Block.take(weights, path, layer_norm, _mlp(weights, f"{path}.mlp", gelu_tanh))
            for path in paths
        ]
        self._merger = _merger(weights, "vision_tower.merger", config)
        paths = (f"vision_tower.deepstack_merger_list.{n}" for n in range(len(config.deepstack)))
        extra = (_merger(weights, path, config, joins_first=True) for path in paths)
        self._deepstack = dict(zip(config.deepstack, extra, strict=True))

    def encode(self, pixels: Tensor) -> TorchFeatures:
        """Run the tower on pixel values [3, height, width], or [frames, 3, height, width]."""
        sides = pixels.shape[-2], pixels.shape[-1]
        where = places(self._config, *sides)
        attention = Attention(self._config, where, pixels.device, None)
        x, extra = self._patches(pixels), list[Tensor]()
        x = x + self._embedded(where).to(x.dtype)
        for index, block in enumerate(self._blocks):
            x = attention(x, block)
            x = x + block.mlp(block.norm2(x))
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
        return [*self._patches.tensors, self._places, *tensors_of(*modules)]

    def _embedded(self, where: Places) -> Tensor:
        """Return the position embeddings [P, D] of patches."""
        near = neighbours(where, self._config.side)
        rows, weights = (torch.as_tensor(each, device=self._places.device) for each in near)
        return (self._places[rows] * weights.unsqueeze(-1)).sum(1)


def _mlp(weights: Weights, path: str, activation: Activation) -> Mlp:
    first = linear(weights, f"{path}.linear_fc1")
    return Mlp(first, activation, linear(weights, f"{path}.linear_fc2"))


def _merger(
    weights: Weights, path: str, config: Qwen3VLVision, *, joins_first: bool = False
) -> Merger:
    norm = layer_norm(weights, f"{path}.norm", EPSILON)
    return Merger(config.merged_size, norm, _mlp(weights, path, gelu), joins_first)
