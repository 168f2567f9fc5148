"""Vision features on MLX, and the parts of towers.

Shape letters: N visual positions of one image, D numbers of a position; others as in
`mmspec.families.tower`.
"""

import math
from functools import partial

import mlx.core as mx
import numpy as np
from numpy.typing import NDArray

from mmspec.decoding.contract import Float32
from mmspec.decoding.seeing_model import CheckpointParts
from mmspec.decoding.segment import GridFeatures
from mmspec.families.tower import Map
from mmspec_mlx.device import device_io
from mmspec_mlx.device.weights import Weights


class MlxFeatures(GridFeatures):
    """Vision features [N, D] of one image on the device."""

    rows: mx.array
    join = staticmethod(partial(mx.concatenate, axis=-1))

    def numpy(self) -> Float32:
        """Copy the features [N, D] to the host.  Blocks."""
        return device_io.to_host(self.rows)


class MlxTowerParts(CheckpointParts):
    """Implements `mmspec.families.tower.TowerParts`."""

    xp = mx
    _weights: Weights

    def linear(self, inputs: int, outputs: int, *paths: str) -> Map:  # noqa: ARG002
        """Take linear layers of the same input as one; packed if all of them are."""
        layer = self._weights.linear_layer(*paths)
        self._remember(paths[0], *layer.arrays)
        return layer

    def convolution(self, weight: str, *shape: int, bias: str = "") -> Map:
        """Take a convolution whose stride is its width, as a product with patches."""
        matrix = self.tensor(weight).reshape(shape[0], -1).T
        mx.eval(matrix)  # another thread cannot evaluate what this one left
        if not bias:
            return lambda x: x @ matrix
        offset = self.tensor(bias)
        return lambda x: x @ matrix + offset

    def layer_norm(self, path: str, width: int, epsilon: float) -> Map:  # noqa: ARG002
        """Take the layer norm at `path`."""
        weight, bias = (self.tensor(f"{path}.{kind}") for kind in ("weight", "bias"))
        return partial(mx.fast.layer_norm, weight=weight, bias=bias, eps=epsilon)

    def rms_norm(self, path: str, width: int, epsilon: float) -> Map:  # noqa: ARG002
        """Take the root-mean-square norm at `path`."""
        return partial(mx.fast.rms_norm, weight=self.tensor(f"{path}.weight"), eps=epsilon)

    def upload(self, array: NDArray[np.generic]) -> mx.array:
        """Copy a NumPy array to the device."""
        return mx.array(array)

    def attention(
        self, query: mx.array, key: mx.array, value: mx.array, visible: mx.array | None = None
    ) -> mx.array:
        """Return attention [B, P, D] of queries, keys and values [B, P, H, S]."""
        heads = (part.swapaxes(1, 2) for part in (query, key, value))
        mask = None if visible is None else mx.expand_dims(visible, (1, 2))
        scale = query.shape[-1] ** -0.5
        output = mx.fast.scaled_dot_product_attention(*heads, scale=scale, mask=mask)
        return mx.flatten(output.swapaxes(1, 2), 2)

    def gelu(self, x: mx.array) -> mx.array:
        """Return the exact GELU."""
        return x * (1 + mx.erf(x / math.sqrt(2))) / 2

    def gelu_tanh(self, x: mx.array) -> mx.array:
        """Return the GELU by its tanh approximation."""
        inner = math.sqrt(2 / math.pi) * (x + 0.044715 * x * x * x)
        return x * (1 + mx.tanh(inner)) / 2

    def _bytes(self, tensor: mx.array) -> bytes:
        return np.array(mx.contiguous(tensor).view(mx.uint8)).tobytes()
