"""CLIP's vision transformer, as far as the feature layer."""

from dataclasses import dataclass

import mlx.core as mx

from mmspec.config import VisionConfig
from mmspec.manifest import PATCHES
from mmspec_mlx.products import Matrix
from mmspec_mlx.weights import Weights


@dataclass(frozen=True, slots=True)
class Affine:
    """A matrix and a bias."""

    matrix: Matrix
    bias: mx.array

    def __call__(self, x: mx.array) -> mx.array:
        """Map x [..., in] to [..., out]."""
        return self.matrix(x) + self.bias

    @property
    def arrays(self) -> list[mx.array]:
        """The tensors it consists of."""
        return [*self.matrix.arrays, self.bias]


@dataclass(frozen=True, slots=True)
class Norm:
    """Layer normalisation."""

    weight: mx.array
    bias: mx.array
    epsilon: float

    def __call__(self, x: mx.array) -> mx.array:
        """Normalise x [..., width] over its last axis."""
        return mx.fast.layer_norm(x, self.weight, self.bias, self.epsilon)

    @property
    def arrays(self) -> list[mx.array]:
        """The tensors it consists of."""
        return [self.weight, self.bias]


@dataclass(frozen=True, slots=True)
class Layer:
    """The weights of one encoder layer."""

    attention_norm: Norm
    queries_keys_values: Affine
    attention_out: Affine
    feed_norm: Norm
    up: Affine
    down: Affine

    @property
    def arrays(self) -> list[mx.array]:
        """The tensors it consists of."""
        norms = [*self.attention_norm.arrays, *self.feed_norm.arrays]
        attention = [*self.queries_keys_values.arrays, *self.attention_out.arrays]
        return [*norms, *attention, *self.up.arrays, *self.down.arrays]


class Tower:
    """Letters: N patches and, before them, the class token; D width."""

    def __init__(self, weights: Weights, config: VisionConfig, layers: int) -> None:
        """Take the tower's tensors, as far as `layers` encoder layers."""
        path = "vision_tower.embeddings"
        self.config = config
        self._class = weights.array(f"{path}.class_embedding")
        self._patches = weights.array(PATCHES).reshape(config.hidden_size, -1)
        self._positions = weights.array(f"{path}.position_embedding.weight")
        self._norm = _norm(weights, "vision_tower.pre_layrnorm", config)
        self._layers = [_layer(weights, index, config) for index in range(layers)]

    def __call__(self, pixels: mx.array) -> mx.array:
        """Encode pixels [3, height, width] to hidden states [1 + N, D]."""
        patches = self._cut(pixels) @ self._patches.T
        x = mx.concatenate([mx.expand_dims(self._class, 0), patches]) + self._positions
        x = self._norm(x)
        for layer in self._layers:
            x = x + self._attend(layer, layer.attention_norm(x))
            inner = layer.up(layer.feed_norm(x))
            x = x + layer.down(inner * mx.sigmoid(1.702 * inner))
        return x

    @property
    def arrays(self) -> list[mx.array]:
        """All its tensors, always in the same order."""
        first = [self._class, self._patches, self._positions, *self._norm.arrays]
        return first + [array for layer in self._layers for array in layer.arrays]

    def _cut(self, pixels: mx.array) -> mx.array:
        """Cut pixels into N rows [3 * patch * patch], as a convolution kernel is laid out."""
        channels, grid, patch = self.config.num_channels, self.config.grid, self.config.patch_size
        side = grid * patch  # what is left over at the right and below is not seen
        tiles = pixels[:, :side, :side].reshape(channels, grid, patch, grid, patch)
        return tiles.transpose(1, 3, 0, 2, 4).reshape(grid * grid, -1)

    def _attend(self, layer: Layer, x: mx.array) -> mx.array:
        heads = self.config.num_attention_heads
        fused = layer.queries_keys_values(x).reshape(1, len(x), 3, heads, -1)
        queries, keys, values = (fused[:, :, part].swapaxes(1, 2) for part in range(3))
        scale = (self.config.hidden_size // heads) ** -0.5
        seen = mx.fast.scaled_dot_product_attention(queries, keys, values, scale=scale)
        return layer.attention_out(seen[0].swapaxes(0, 1).reshape(len(x), -1))


def affine(weights: Weights, *paths: str) -> Affine:
    """Take matrices and biases, fused along their outputs."""
    matrix = weights.matrix(*(f"{path}.weight" for path in paths))
    return Affine(matrix, weights.vector(*(f"{path}.bias" for path in paths)))


def _norm(weights: Weights, path: str, config: VisionConfig) -> Norm:
    weight, bias = weights.array(f"{path}.weight"), weights.array(f"{path}.bias")
    return Norm(weight, bias, config.layer_norm_eps)


def _layer(weights: Weights, index: int, config: VisionConfig) -> Layer:
    path = f"vision_tower.encoder.layers.{index}"
    return Layer(
        attention_norm=_norm(weights, f"{path}.layer_norm1", config),
        queries_keys_values=affine(weights, *(f"{path}.self_attn.{part}_proj" for part in "qkv")),
        attention_out=affine(weights, f"{path}.self_attn.out_proj"),
        feed_norm=_norm(weights, f"{path}.layer_norm2", config),
        up=affine(weights, f"{path}.mlp.fc1"),
        down=affine(weights, f"{path}.mlp.fc2"),
    )
