"""Vision features on PyTorch, and the parts of towers.

Shape letters: N visual positions of one image, D numbers of a position; others as in
`mmspec.families.tower`.
"""

from functools import partial

import array_api_compat.torch as xp
import torch
import torch.nn.functional as F
from torch import Tensor

from mmspec.decoding.contract import Float32
from mmspec.decoding.seeing_model import CheckpointParts
from mmspec.decoding.segment import GridFeatures
from mmspec.families.tower import Map
from mmspec_torch.device.device_io import to_host
from mmspec_torch.device.products import LinearLayer
from mmspec_torch.device.quantized import quantized
from mmspec_torch.device.weights import Weights


class TorchFeatures(GridFeatures):
    """Vision features [N, D] of one image on the device."""

    rows: Tensor
    join = staticmethod(partial(torch.cat, dim=-1))

    def numpy(self) -> Float32:
        """Copy the features [N, D] to the host.  Blocks."""
        return to_host(self.rows)


class TorchTowerParts(CheckpointParts):
    """Implements `mmspec.families.tower.TowerParts`."""

    xp = xp
    gelu = staticmethod(F.gelu)
    gelu_tanh = staticmethod(partial(F.gelu, approximate="tanh"))
    _weights: Weights

    def linear(self, inputs: int, outputs: int, *paths: str) -> Map:  # noqa: ARG002
        """Take linear layers of the same input as one, quantized if there is a scheme that fits.

        Inputs that do not divide into groups stay as they are, as those of some of Qwen's towers.
        """
        weight, bias = self._weights.stack(paths), self._weights.stack(paths, "bias")
        scheme = self._weights.scheme
        if scheme is None or (scheme.group and inputs % scheme.group):
            self._remember(paths[0], weight, bias)
            return partial(F.linear, weight=weight, bias=bias)
        matrix = quantized(weight, scheme, paths[0])
        self._remember(paths[0], *matrix.tensors, bias)
        return LinearLayer(matrix, bias)

    def convolution(self, weight: str, *shape: int, bias: str = "") -> Map:
        """Take a convolution whose stride is its width, as a product with patches."""
        matrix = self.tensor(weight, *shape).flatten(1)
        return partial(F.linear, weight=matrix, bias=self.tensor(bias) if bias else None)

    def layer_norm(self, path: str, width: int, epsilon: float) -> Map:
        """Take the layer norm at `path`."""
        parameters = {kind: self.tensor(f"{path}.{kind}") for kind in ("weight", "bias")}
        return partial(F.layer_norm, normalized_shape=[width], eps=epsilon, **parameters)

    def rms_norm(self, path: str, width: int, epsilon: float) -> Map:
        """Take the root-mean-square norm at `path`."""
        weight = self.tensor(f"{path}.weight")
        return partial(F.rms_norm, normalized_shape=[width], weight=weight, eps=epsilon)

    def upload(self, array: object) -> Tensor:
        """Copy a NumPy array to the device."""
        return torch.as_tensor(array, device=self._weights.device)

    def attention(
        self, query: Tensor, key: Tensor, value: Tensor, visible: Tensor | None = None
    ) -> Tensor:
        """Return attention [B, P, D] of queries, keys and values [B, P, H, S]."""
        query, key, value = (part.transpose(1, 2) for part in (query, key, value))
        mask = None if visible is None else visible[:, None, None]
        output = F.scaled_dot_product_attention(query, key, value, attn_mask=mask)
        return output.transpose(1, 2).flatten(2)

    def _bytes(self, tensor: Tensor) -> memoryview:
        return tensor.contiguous().cpu().view(torch.uint8).numpy().data
