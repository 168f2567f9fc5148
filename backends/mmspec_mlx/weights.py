"""A checkpoint's tensors on the device: quantized matrices stay packed, the rest is plain."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import mlx.core as mx

from mmspec.checkpoint import Packing, Source
from mmspec.tensorfile import Stored
from mmspec_mlx import host

FEW_ROWS = 3
"""Up to so many rows a CPU's BLAS is faster at (W x^T)^T, by half for one row."""


@dataclass(frozen=True, slots=True)
class Plain:
    """A float matrix, kept as [in, out]: a view of what the file holds."""

    transposed: mx.array

    def __call__(self, x: mx.array) -> mx.array:
        """Multiply x [..., in] to [..., out]."""
        inputs, outputs = self.transposed.shape
        if x.size > FEW_ROWS * inputs or mx.default_device() != mx.Device(mx.cpu):
            return x @ self.transposed
        columns = self.transposed.T @ x.reshape(-1, inputs).T
        return columns.T.reshape(*x.shape[:-1], outputs)

    def rows(self, index: mx.array) -> mx.array:
        """Look rows up: index [...] gives [..., in]."""
        return self.transposed.T[index]

    @property
    def arrays(self) -> list[mx.array]:
        """The tensors it consists of."""
        return [self.transposed]


@dataclass(frozen=True, slots=True)
class Packed:
    """A matrix in MLX's affine quantization, never unpacked as a whole."""

    weight: mx.array
    scales: mx.array
    biases: mx.array
    bits: int
    group_size: int

    def __call__(self, x: mx.array) -> mx.array:
        """Multiply x [..., in] to [..., out]."""
        return mx.quantized_matmul(
            x,
            self.weight,
            scales=self.scales,
            biases=self.biases,
            transpose=True,
            group_size=self.group_size,
            bits=self.bits,
        )

    def rows(self, index: mx.array) -> mx.array:
        """Look rows up and unpack those alone: index [...] gives [..., in]."""
        weight, scales, biases = self.weight[index], self.scales[index], self.biases[index]
        return _unpacked(Packed(weight, scales, biases, self.bits, self.group_size))

    @property
    def arrays(self) -> list[mx.array]:
        """The tensors it consists of."""
        return [self.weight, self.scales, self.biases]


Matrix = Plain | Packed


class Weights:
    """Hands out a plan's tensors, each once, in the type that activations have.

    read: gives the array of one stored tensor.  settle: called with finished arrays; `mx.eval`
    keeps the peak at one layer's worth above the model, a no-op keeps everything unread.
    """

    def __init__(
        self,
        sources: Mapping[str, Source],
        dtype: mx.Dtype,
        read: Callable[[Stored], mx.array],
        settle: Callable[..., None],
    ) -> None:
        """Start with every source unused."""
        self.dtype = dtype
        self._sources = dict(sources)
        self._read = read
        self._settle = settle

    def unused(self) -> list[str]:
        """Names nobody has asked for."""
        return list(self._sources)

    def array(self, name: str) -> mx.array:
        """Return a tensor in PyTorch's order, unpacked if it is quantized."""
        return self._settled(_unpacked(self._take(name)))

    def vector(self, *names: str) -> mx.array:
        """Return vectors, one after the other."""
        return self._settled(mx.concatenate([self.array(name) for name in names]))

    def matrix(self, *names: str) -> Matrix:
        """Return matrices fused along their outputs; packed if all of them are."""
        parts = [self._take(name) for name in names]
        packed = [part for part in parts if isinstance(part, Packed)]
        if len(packed) == len(parts):
            return self._fused(packed)
        return Plain(self._settled(mx.concatenate([_unpacked(part) for part in parts])).T)

    def _take(self, name: str) -> mx.array | Packed:
        source = self._sources.pop(name)
        if source.packing is not None:
            return self._packed(source.stored, source.packing)
        array = self._read(source.stored).astype(self.dtype)
        return array.transpose(0, 3, 1, 2) if source.layout == "mlx" else array

    def _packed(self, stored: Stored, packing: Packing) -> Packed:
        scales = self._read(packing.scales).astype(self.dtype)
        biases = self._read(packing.biases).astype(self.dtype)
        return Packed(self._read(stored), scales, biases, packing.bits, packing.group_size)

    def _fused(self, parts: list[Packed]) -> Packed:
        weight = self._settled(mx.concatenate([part.weight for part in parts]))
        scales = self._settled(mx.concatenate([part.scales for part in parts]))
        biases = self._settled(mx.concatenate([part.biases for part in parts]))
        return Packed(weight, scales, biases, parts[0].bits, parts[0].group_size)

    def _settled(self, array: mx.array) -> mx.array:
        self._settle(array)
        return array


def _unpacked(part: mx.array | Packed) -> mx.array:
    if isinstance(part, mx.array):
        return part
    bits, group_size = part.bits, part.group_size
    return mx.dequantize(part.weight, part.scales, part.biases, group_size=group_size, bits=bits)


class Files:
    """Reads stored tensors, opening each file once and keeping nothing that was handed out."""

    def __init__(self) -> None:
        """Open nothing yet."""
        self._open: dict[Path, dict[str, mx.array]] = {}

    def __call__(self, stored: Stored) -> mx.array:
        """Return a tensor, unread until it is evaluated; a second time is a KeyError."""
        if stored.file not in self._open:
            self._open[stored.file] = host.read_file(stored.file)
        return self._open[stored.file].pop(stored.name)


_DTYPES = {"F32": mx.float32, "F16": mx.float16, "BF16": mx.bfloat16, "U32": mx.uint32}


def unread(stored: Stored) -> mx.array:
    """Stand in for a tensor by its shape and type; takes no memory until it is evaluated."""
    return mx.zeros(stored.shape, dtype=_DTYPES[stored.dtype])
