"""A checkpoint's tensors on the device: quantized matrices stay packed, the rest is plain."""

from collections.abc import Callable, Mapping
from pathlib import Path

import mlx.core as mx

from mmspec.checkpoint import Packing, Source
from mmspec.tensorfile import Stored
from mmspec_mlx import host
from mmspec_mlx.products import Matrix, Packed, Plain, for_few_rows, plain, unpacked


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
        return self._settled(unpacked(self._take(name)))

    def vector(self, *names: str) -> mx.array:
        """Return vectors, one after the other."""
        return self._settled(mx.concatenate([self.array(name) for name in names]))

    def matrix(self, *names: str) -> Matrix:
        """Return matrices fused along their outputs, to multiply by; packed if all of them are."""
        parts = [self._take(name) for name in names]
        packed = [part for part in parts if isinstance(part, Packed)]
        if len(packed) == len(parts):
            return self._fused(packed)
        fused = plain(mx.concatenate([unpacked(part) for part in parts]))
        self._settle(*fused.arrays)
        return fused

    def decoding_matrix(self, *names: str) -> Matrix:
        """Return matrices as `matrix` does, laid out for few rows too."""
        return self.for_few_rows(self.matrix(*names))

    def for_few_rows(self, matrix: Matrix) -> Matrix:
        """Lay out for few rows too what was taken; see `mmspec_mlx.products.for_few_rows`."""
        laid_out = for_few_rows(matrix)
        self._settle(*laid_out.arrays)
        return laid_out

    def table(self, name: str) -> Matrix:
        """Return a matrix to look rows up in."""
        part = self._take(name)
        if isinstance(part, Packed):
            return self._fused([part])
        return Plain(self._settled(part).T)

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
