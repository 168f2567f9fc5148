"""A checkpoint's tensors on the device: read, dequantized, fused, each taken once."""

from collections.abc import Callable, Mapping, Sequence

import torch
from torch import Tensor

from mmspec.checkpoint import Packing, Source
from mmspec.config import ModelConfig
from mmspec.errors import CheckpointError
from mmspec.manifest import manifest
from mmspec.quantization import Scheme
from mmspec.tensorfile import Stored
from mmspec_torch.products import Product, product
from mmspec_torch.quantized import quantized

_TYPES = {
    "F32": torch.float32,
    "F16": torch.float16,
    "BF16": torch.bfloat16,
    "U32": torch.int32,  # bits alone matter, and signed shifts are the ones implemented
}


class Weights:
    """Tensors by canonical name, read when taken, none of them twice."""

    def __init__(
        self,
        names: Mapping[str, object],
        read: Callable[[str], Tensor],
        scheme: Scheme | None = None,
    ) -> None:
        """Offer `names`; `read` is called once for each one taken.  scheme: of linear layers."""
        self._left = set(names)
        self._read = read
        self.scheme = scheme

    def take(self, name: str) -> Tensor:
        """Read a tensor.  Raises KeyError where it is not there or was taken before."""
        self._left.remove(name)
        return self._read(name)

    def stack(self, paths: Sequence[str], kind: str = "weight") -> Tensor:
        """Read `PATH.kind` of all paths, stacked along the first axis."""
        return torch.cat([self.take(f"{path}.{kind}") for path in paths])

    def product(self, *paths: str) -> Product:
        """Take the weights of linear layers of one input as one product, quantized if asked for."""
        weight = self.stack(paths)
        return quantized(weight, self.scheme, paths[0]) if self.scheme else product(weight)

    @property
    def left(self) -> list[str]:
        """Names that nothing has taken."""
        return sorted(self._left)


def open_weights(
    sources: Mapping[str, Source],
    device: torch.device,
    dtype: torch.dtype,
    scheme: Scheme | None = None,
) -> Weights:
    """Give access to the tensors of a checkpoint, of type `dtype` on `device`."""
    return Weights(sources, lambda name: read_tensor(sources[name], dtype).to(device), scheme)


def meta_weights(
    config: ModelConfig, dtype: torch.dtype = torch.float32, scheme: Scheme | None = None
) -> Weights:
    """Stand-ins of a whole model that have shapes and no memory."""
    shapes = manifest(config)
    return Weights(
        shapes, lambda name: torch.empty(shapes[name], dtype=dtype, device="meta"), scheme
    )


def read_tensor(source: Source, dtype: torch.dtype) -> Tensor:
    """Read one tensor to the host, in PyTorch's layout.  Raises CheckpointError."""
    stored = _read_stored(source.stored)
    if source.packing is not None:
        return dequantize(stored, source.packing, dtype)
    if source.layout == "mlx":
        stored = stored.permute(0, 3, 1, 2)
    return stored.to(dtype).contiguous()


def dequantize(packed: Tensor, packing: Packing, dtype: torch.dtype) -> Tensor:
    """Unpack MLX's affine format: packed int32 [out, in * bits / 32] to weights [out, in].

    Computes in `dtype`, as MLX does with scales of that type.
    """
    scales = _read_stored(packing.scales).to(dtype).unsqueeze(-1)
    biases = _read_stored(packing.biases).to(dtype).unsqueeze(-1)
    shifts = torch.arange(0, 32, packing.bits, dtype=torch.int32)
    integers = (packed.unsqueeze(-1) >> shifts) & (2**packing.bits - 1)
    grouped = integers.view(*scales.shape[:-1], packing.group_size)
    weights: Tensor = scales * grouped.to(dtype) + biases
    return weights.flatten(1)


def _read_stored(stored: Stored) -> Tensor:
    size = stored.end - stored.start
    try:
        with stored.file.open("rb") as file:
            file.seek(stored.start)
            content = bytearray(file.read(size))
    except OSError as error:
        raise CheckpointError(f"cannot read {stored.file}: {error.strerror}") from error
    if len(content) != size:
        raise CheckpointError(f"{stored.file} ends inside {stored.name}: download it again")
    return torch.frombuffer(content, dtype=_TYPES[stored.dtype]).view(stored.shape)
