"""Loads a checkpoint's tensors to the device: reads, dequantizes and fuses them."""

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor

from mmspec.checkpoints.loading_plan import Packing, TensorSource, not_finite
from mmspec.checkpoints.quantization import Scheme
from mmspec.checkpoints.safetensors_file import StoredTensor, read_into
from mmspec_torch.device.framework import framework
from mmspec_torch.device.products import LinearLayer, Product, product
from mmspec_torch.device.quantized import quantized

_TYPES = {
    "F32": torch.float32,
    "F16": torch.float16,
    "BF16": torch.bfloat16,
    "U32": torch.int32,  # only the bits matter
}

Norm = Callable[[Tensor], Tensor]
"""Function that normalises x [..., H] over its last axis."""


def rms_norm(weight: Tensor, eps: float) -> Norm:
    """Return the norm with `weight` [H], or [g, H] for groups, that is fastest on its device."""
    width = weight.shape[-1]
    if weight.device.type == "cpu" and weight.dtype == torch.float32:
        least = torch.tensor(math.sqrt(width * eps))
        return partial(_short_norm, weight=weight * math.sqrt(width), least=least)
    if weight.ndim == 1:
        return partial(F.rms_norm, normalized_shape=[width], weight=weight, eps=eps)
    return lambda x: F.rms_norm(x, [width], None, eps).mul_(weight)


def _short_norm(x: Tensor, weight: Tensor, least: Tensor) -> Tensor:
    """The norm in three operations instead of six; `weight` and `least` hold the width.

    sqrt(mean(x^2) + eps) is hypot(|x|, sqrt(H eps)) / sqrt(H).
    """
    length = torch.linalg.vector_norm(x, dim=-1, keepdim=True)
    return x.div(length.hypot_(least)).mul_(weight)


class Weights:
    """Implements `mmspec.decoding.layers.LayerTensors`; each tensor is read when taken."""

    def __init__(
        self,
        names: Mapping[str, object],
        read: Callable[[str], Tensor],
        device: torch.device,
        dtype: torch.dtype,
        scheme: Scheme | None = None,
    ) -> None:
        """read: returns the tensor of a name. scheme: how to quantize linear layers, or None."""
        self._remainder = set(names)
        self._read = read
        self.device, self.dtype, self.scheme = device, dtype, scheme
        self.framework = framework(device)

    def tensor(self, name: str) -> Tensor:
        """Read a tensor.  Raises KeyError if it does not exist or was taken before."""
        self._remainder.remove(name)
        return self._read(name)

    def stack(self, paths: Sequence[str], kind: str = "weight") -> Tensor:
        """Read the tensors `PATH.kind` of all paths, concatenated along the first axis."""
        parts = [self.tensor(f"{path}.{kind}") for path in paths]
        return torch.cat(parts) if len(parts) > 1 else parts[0]

    def linear(self, *paths: str, bias: bool = True) -> Product:
        """Take linear layers with the same input as one product, quantized if there is a scheme."""
        weight = self.stack(paths)
        matrix = quantized(weight, self.scheme, paths[0]) if self.scheme else product(weight)
        return LinearLayer(matrix, self.stack(paths, "bias")) if bias else matrix

    def norm(self, path: str, eps: float) -> Norm:
        """Take the root-mean-square norm at `path`."""
        return rms_norm(self.tensor(f"{path}.weight"), eps)

    heads_norm = staticmethod(rms_norm)

    @property
    def remainder(self) -> list[str]:
        """The names of the tensors that have not been taken yet."""
        return sorted(self._remainder)


def open_weights(
    sources: Mapping[str, TensorSource],
    device: torch.device,
    dtype: torch.dtype,
    scheme: Scheme | None = None,
    count: Callable[[StoredTensor], object] = lambda _: None,
) -> Weights:
    """Return a checkpoint's tensors, converted to `dtype` and moved to `device` when taken.

    count: called with each tensor before it is read.
    """

    def read(name: str) -> Tensor:
        count(sources[name].tensor)
        return read_tensor(sources[name], dtype).to(device)

    return Weights(sources, read, device, dtype, scheme)


def read_tensor(source: TensorSource, dtype: torch.dtype) -> Tensor:
    """Read one tensor to the host, in PyTorch's layout.  Raises CheckpointError."""
    tensor = _read_entry(source.tensor)
    if source.packing is not None:
        tensor = dequantize(tensor, source.packing, dtype)
    elif source.layout == "mlx":
        tensor = tensor.movedim(-1, 1).to(dtype).contiguous()
    else:
        tensor = (tensor.float() + 1 if source.less_one else tensor).to(dtype).contiguous()
    return require_finite(tensor, source.tensor.name, source.tensor.file)


def require_finite(tensor: Tensor, name: str, file: Path) -> Tensor:
    """Return the tensor, after one look at it; CheckpointError for NaN or infinity."""
    if not torch.stack(torch.aminmax(tensor)).isfinite().all():  # one NaN makes both bounds NaN
        raise not_finite(file, name)
    return tensor


def dequantize(words: Tensor, packing: Packing, dtype: torch.dtype) -> Tensor:
    """Dequantize MLX's affine format: int32 [out, in * bits / 32] to weights [out, in].

    Computes in `dtype`, as MLX does with scales of that dtype.
    """
    scales = _read_entry(packing.scales).to(dtype).unsqueeze(-1)
    biases = _read_entry(packing.biases).to(dtype).unsqueeze(-1)
    # Eight integers fill `bits` bytes, and each lies within two: int16 holds both.
    octets = words.view(torch.uint8).view(len(words), -1, packing.bits).to(torch.int16)
    starts = torch.arange(0, 8 * packing.bits, packing.bits)
    pairs = (octets | octets.roll(-1, dims=-1) << 8)[..., starts // 8]
    integers = pairs >> (starts % 8).to(torch.int16) & 2**packing.bits - 1
    groups = integers.view(*scales.shape[:-1], packing.group_size)
    weights: Tensor = scales * groups.to(dtype) + biases
    return weights.flatten(1)


def _read_entry(entry: StoredTensor) -> Tensor:
    tensor = torch.empty(entry.shape, dtype=_TYPES[entry.dtype])
    read_into(tensor.view(-1).view(torch.uint8).numpy().data, entry)
    return tensor
