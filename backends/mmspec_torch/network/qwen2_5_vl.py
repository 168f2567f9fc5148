"""Qwen2.5-VL's tower and merger, whose layers but a few attend within windows.

Shape letters: P patches in the order of merged blocks, N visual positions (merged blocks).
"""

from torch import Tensor

from mmspec.families.qwen2_5_vl import Qwen25VLVision
from mmspec.families.qwen_patches import places, windows
from mmspec_torch.device.weights import Weights
from mmspec_torch.network.affine import Mlp, gelu, linear, rms_norm, swiglu
from mmspec_torch.network.qwen_tower import (
    EPSILON,
    Attention,
    Block,
    Merger,
    Patches,
    tensors_of,
)
from mmspec_torch.network.vision import TorchFeatures


class Qwen25VL:
    """Implements `mmspec_torch.network.vision.Vision`; features [N, H] are embeddings."""

    def __init__(self, weights: Weights, config: Qwen25VLVision) -> None:
        self.settings, self._config = repr(config), config
        self._patches = Patches(weights, config, bias=False)
        paths = (f"vision_tower.blocks.{index}" for index in range(config.depth))
        self._blocks = [Block.take(weights, path, rms_norm, _mlp(weights, path)) for path in paths]
        norm = rms_norm(weights, "vision_tower.merger.ln_q", EPSILON)
        path = "vision_tower.merger.mlp"
        mlp = Mlp(linear(weights, f"{path}.0"), gelu, linear(weights, f"{path}.2"))
        self._merger = Merger(config.merged_size, norm, mlp)

    def encode(self, pixels: Tensor) -> TorchFeatures:
        """Run the tower on pixel values [3, height, width], or [frames, 3, height, width]."""
        config, sides = self._config, (pixels.shape[-2], pixels.shape[-1])
        where = places(config, *sides)
        attention = Attention(config, where, pixels.device, windows(where, config.window))
        x = self._patches(pixels)
        for index, block in enumerate(self._blocks):
            x = attention(x, block, whole=index in config.fullatt_block_indexes)
            x = x + block.mlp(block.norm2(x))
        return TorchFeatures(self._merger(x), config.grid(*sides))

    def place(self, rows: Tensor) -> Tensor:
        """Return features [N, H] themselves: the merger has projected them."""
        return rows

    @property
    def tensors(self) -> list[Tensor]:
        """The tower's tensors, always in the same order."""
        return [*self._patches.tensors, *tensors_of(*self._blocks, self._merger)]


def _mlp(weights: Weights, path: str) -> Mlp:
    first = linear(weights, f"{path}.mlp.gate_proj", f"{path}.mlp.up_proj")
    return Mlp(first, swiglu, linear(weights, f"{path}.mlp.down_proj"))
