"""CLIP's vision tower, up to the layer whose output LLaVA reads.

Shape letters: N positions (class token and patches), D width, P patches.
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from mmspec.families.llava import PATCHES, LlavaVision
from mmspec_torch.device.weights import Weights
from mmspec_torch.network.affine import LayerNorm, Linear, layer_norm, linear

_ROOT = "vision_tower"


@dataclass(frozen=True, slots=True)
class EncoderLayer:
    """One encoder layer; q_proj, k_proj and v_proj are one product."""

    layer_norm1: LayerNorm
    qkv_proj: Linear
    out_proj: Linear
    layer_norm2: LayerNorm
    fc1: Linear
    fc2: Linear

    @classmethod
    def take(cls, weights: Weights, path: str, epsilon: float) -> "EncoderLayer":
        """Take the tensors of the layer at `path`."""
        attention = f"{path}.self_attn"
        return cls(
            layer_norm(weights, f"{path}.layer_norm1", epsilon),
            linear(weights, *(f"{attention}.{name}_proj" for name in "qkv")),
            linear(weights, f"{attention}.out_proj"),
            layer_norm(weights, f"{path}.layer_norm2", epsilon),
            linear(weights, f"{path}.mlp.fc1"),
            linear(weights, f"{path}.mlp.fc2"),
        )

    @property
    def parts(self) -> tuple[Linear | LayerNorm, ...]:
        """All linear layers and norms, in the order of the forward pass."""
        norms = self.layer_norm1, self.layer_norm2
        return norms[0], self.qkv_proj, self.out_proj, norms[1], self.fc1, self.fc2


class Tower:
    """CLIP's encoder layers up to the feature layer."""

    def __init__(self, weights: Weights, vision: LlavaVision) -> None:
        self.vision = vision
        self._first = 1 if vision.drops_class_token else 0
        self._class = weights.take(f"{_ROOT}.embeddings.class_embedding")
        self._patches = weights.take(PATCHES).flatten(1)
        self._places = weights.take(f"{_ROOT}.embeddings.position_embedding.weight")
        self._norm = layer_norm(weights, f"{_ROOT}.pre_layrnorm", vision.layer_norm_eps)
        paths = (f"{_ROOT}.encoder.layers.{index}" for index in range(vision.layers))
        self._layers = [EncoderLayer.take(weights, path, vision.layer_norm_eps) for path in paths]

    def __call__(self, pixels: Tensor) -> Tensor:
        """Return the features [N, D] of pixels [channels, height, width]."""
        x = self._norm(self._embed(pixels))
        for layer in self._layers:
            x = self._attend(x, layer)
            hidden = layer.fc1(layer.layer_norm2(x))
            x = x + layer.fc2(hidden * torch.sigmoid(1.702 * hidden))
        return x[self._first :]

    def _embed(self, pixels: Tensor) -> Tensor:
        """Cut pixels into patches and embed them: a convolution whose stride is its width."""
        size = self.vision.patch_size
        patches = F.unfold(pixels.unsqueeze(0), size, stride=size)[0].T
        return torch.cat((self._class.unsqueeze(0), patches @ self._patches.T)) + self._places

    def _attend(self, x: Tensor, layer: EncoderLayer) -> Tensor:
        qkv = layer.qkv_proj(layer.layer_norm1(x))
        heads = self.vision.num_attention_heads
        query, key, value = qkv.view(len(x), 3, heads, -1).permute(1, 2, 0, 3).unsqueeze(1)
        attended = F.scaled_dot_product_attention(query, key, value)[0]
        return x + layer.out_proj(attended.transpose(0, 1).flatten(1))

    @property
    def tensors(self) -> list[Tensor]:
        """All tensors, always in the same order."""
        parts = [self._norm, *(part for layer in self._layers for part in layer.parts)]
        flat = [tensor for part in parts for tensor in part.tensors]
        return [self._class, self._patches, self._places, *flat]
