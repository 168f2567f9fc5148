"""CLIP's vision transformer, up to the layer whose output LLaVA reads."""

from dataclasses import dataclass

import mlx.core as mx

from mmspec.families.llava import PATCHES, LlavaVision
from mmspec_mlx.device.products import Biased
from mmspec_mlx.device.weights import Weights
from mmspec_mlx.network.affine import LayerNorm, layer_norm


@dataclass(frozen=True, slots=True)
class EncoderLayer:
    """The weights of one encoder layer."""

    layer_norm1: LayerNorm
    qkv_proj: Biased
    out_proj: Biased
    layer_norm2: LayerNorm
    fc1: Biased
    fc2: Biased

    @property
    def arrays(self) -> list[mx.array]:
        """All tensors of the module."""
        norms = [*self.layer_norm1.arrays, *self.layer_norm2.arrays]
        attention = [*self.qkv_proj.arrays, *self.out_proj.arrays]
        return [*norms, *attention, *self.fc1.arrays, *self.fc2.arrays]


class Tower:
    """CLIP's encoder layers up to the feature layer.  N patches after the class token, D width."""

    def __init__(self, weights: Weights, config: LlavaVision) -> None:
        path = "vision_tower.embeddings"
        self.config = config
        self._class = weights.array(f"{path}.class_embedding")
        self._patches = weights.array(PATCHES).reshape(config.hidden_size, -1)
        self._positions = weights.array(f"{path}.position_embedding.weight")
        self._norm = layer_norm(weights, "vision_tower.pre_layrnorm", config.layer_norm_eps)
        self._layers = [_layer(weights, index, config) for index in range(config.layers)]

    def __call__(self, pixels: mx.array) -> mx.array:
        """Encode pixels [3, height, width] to features, with or without the class token."""
        patches = self._cut(pixels) @ self._patches.T
        x = mx.concatenate([mx.expand_dims(self._class, 0), patches]) + self._positions
        x = self._norm(x)
        for layer in self._layers:
            x = x + self._attend(layer, layer.layer_norm1(x))
            inner = layer.fc1(layer.layer_norm2(x))
            x = x + layer.fc2(inner * mx.sigmoid(1.702 * inner))
        return x[1:] if self.config.drops_class_token else x

    @property
    def arrays(self) -> list[mx.array]:
        """All tensors, always in the same order."""
        first = [self._class, self._patches, self._positions, *self._norm.arrays]
        return first + [array for layer in self._layers for array in layer.arrays]

    def _cut(self, pixels: mx.array) -> mx.array:
        """Cut pixels into N patches [3 * patch * patch], in the order of the convolution kernel."""
        channels, grid, patch = self.config.num_channels, self.config.side, self.config.patch_size
        side = grid * patch  # pixels beyond the last whole patch are ignored
        tiles = pixels[:, :side, :side].reshape(channels, grid, patch, grid, patch)
        return tiles.transpose(1, 3, 0, 2, 4).reshape(grid * grid, -1)

    def _attend(self, layer: EncoderLayer, x: mx.array) -> mx.array:
        heads = self.config.num_attention_heads
        fused = layer.qkv_proj(x).reshape(1, len(x), 3, heads, -1)
        queries, keys, values = (fused[:, :, part].swapaxes(1, 2) for part in range(3))
        scale = (self.config.hidden_size // heads) ** -0.5
        attended = mx.fast.scaled_dot_product_attention(queries, keys, values, scale=scale)
        return layer.out_proj(attended[0].swapaxes(0, 1).reshape(len(x), -1))


def _layer(weights: Weights, index: int, config: LlavaVision) -> EncoderLayer:
    path = f"vision_tower.encoder.layers.{index}"
    return EncoderLayer(
        layer_norm1=layer_norm(weights, f"{path}.layer_norm1", config.layer_norm_eps),
        qkv_proj=weights.linear(*(f"{path}.self_attn.{part}_proj" for part in "qkv")),
        out_proj=weights.linear(f"{path}.self_attn.out_proj"),
        layer_norm2=layer_norm(weights, f"{path}.layer_norm2", config.layer_norm_eps),
        fc1=weights.linear(f"{path}.mlp.fc1"),
        fc2=weights.linear(f"{path}.mlp.fc2"),
    )
