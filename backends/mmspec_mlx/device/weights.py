"""Loads a checkpoint's tensors to the device; quantized matrices stay packed."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from typing import Any

import mlx.core as mx

from mmspec.checkpoints.loading_plan import TensorSource, not_finite
from mmspec.checkpoints.safetensors_file import StoredTensor
from mmspec.ground.errors import CheckpointError
from mmspec_mlx.device.framework import framework
from mmspec_mlx.device.kernels import kernels
from mmspec_mlx.device.products import Biased, Matrix, Plain, for_few_rows, plain
from mmspec_mlx.device.quantized import Joined, Packed, unpacked

Linear = Callable[[mx.array], mx.array]
"""Function from x [..., in] to [..., out]: a matrix, with or without a bias."""
Settle = Callable[[Sequence[mx.array], Mapping[StoredTensor, mx.array]], None]
"""Function that takes finished arrays, and for each tensor in them whether it is finite."""


class Weights:
    """Implements `mmspec.decoding.layers.LayerTensors`.

    read: returns the array of a stored tensor.  settle: `evaluate` reads finished arrays at once,
    so that peak memory is the model and one layer.
    """

    def __init__(
        self,
        sources: Mapping[str, TensorSource],
        dtype: mx.Dtype,
        read: Callable[[StoredTensor], mx.array],
        settle: Settle,
    ) -> None:
        self.dtype, self.framework = dtype, framework(kernels(dtype))
        self._sources = dict(sources)
        self._read = read
        self._settle_now = settle
        self._unchecked: dict[StoredTensor, mx.array] = {}
        """False for each tensor that turns out to hold NaN or infinity, until it is settled."""

    def unused(self) -> list[str]:
        """The names of the tensors that have not been taken."""
        return list(self._sources)

    def tensor(self, name: str) -> mx.array:
        """Return a tensor with PyTorch's order of axes, unpacked if it is quantized."""
        return self._settled(unpacked(self._take(name)))

    def vector(self, *names: str) -> mx.array:
        """Vectors concatenated, in the order of `names`."""
        return self._settled(mx.concatenate([self.tensor(name) for name in names]))

    def matrix(self, *names: str) -> Matrix:
        """Return matrices side by side: those that are packed alike are fused, floats too."""
        parts = [self._take(name) for name in names]
        alike = [list(group) for _, group in groupby(parts, _packing)]
        fused = [self._alike(group) for group in alike]
        return fused[0] if len(fused) == 1 else Joined(fused)

    def _alike(self, parts: list[mx.array | Packed]) -> Plain | Packed:
        packed = [part for part in parts if isinstance(part, Packed)]
        if packed:
            return self._fused(packed)
        fused = plain(mx.concatenate([unpacked(part) for part in parts]))
        self._settle(*fused.arrays)
        return fused

    def joined(self, *paths: str) -> Biased:
        """Return matrices and biases of linear layers, fused along their outputs."""
        matrix = self.matrix(*(f"{path}.weight" for path in paths))
        return Biased(matrix, self.vector(*(f"{path}.bias" for path in paths)))

    def linear(self, *paths: str, bias: bool = True) -> Matrix | Biased:
        """Return linear layers of the same input as one, laid out for products with few rows."""
        if not bias:
            return self.for_few_rows(self.matrix(*(f"{path}.weight" for path in paths)))
        whole = self.joined(*paths)
        return Biased(self.for_few_rows(whole.matrix), whole.bias)

    def norm(self, path: str, eps: float) -> Linear:
        """Take the root-mean-square norm at `path`."""
        return kernels(self.dtype).rms_norm(self.tensor(f"{path}.weight"), eps)

    def heads_norm(self, weight: mx.array, eps: float) -> Linear:
        """The root-mean-square norm of heads [..., g, D] with a weight [g, D]."""
        ones = mx.ones(weight.shape[-1], weight.dtype)
        return lambda x: mx.fast.rms_norm(x, ones, eps) * weight

    def for_few_rows(self, matrix: Matrix) -> Matrix:
        """Lay a matrix out for products with few rows; see `mmspec_mlx.device.products`."""
        laid_out = for_few_rows(matrix)
        self._settle(*laid_out.arrays)
        return laid_out

    def table(self, name: str) -> Plain | Packed:
        """Return a matrix to look up rows in."""
        part = self._take(name)
        if isinstance(part, Packed):
            return self._fused([part])
        return Plain(self._settled(part).T)

    def _take(self, name: str) -> mx.array | Packed:
        source = self._sources.pop(name)
        if (packing := source.packing) is not None:
            affine = [self._floats(stored) for stored in (packing.scales, packing.biases)]
            return Packed([self._read(source.stored), *affine], packing.bits, packing.group_size)
        array = self._floats(source.stored, 1 if source.less_one else 0)
        return mx.moveaxis(array, -1, 1) if source.layout == "mlx" else array

    def _floats(self, stored: StoredTensor, added: int = 0) -> mx.array:
        array = self._read(stored)
        array = (array.astype(mx.float32) + added if added else array).astype(self.dtype)
        self._unchecked[stored] = is_finite(array)
        return array

    def _fused(self, parts: list[Packed]) -> Packed:
        arrays = map(list, zip(*(part.arrays for part in parts), strict=True))
        return replace(parts[0], arrays=[self._settled(mx.concatenate(each)) for each in arrays])

    def _settle(self, *arrays: mx.array) -> None:
        unchecked, self._unchecked = self._unchecked, {}
        self._settle_now(arrays, unchecked)

    def _settled(self, array: mx.array) -> mx.array:
        self._settle(array)
        return array


def _packing(part: mx.array | Packed) -> tuple[int, int] | None:
    """Bits and group size; None for floats."""
    return (part.bits, part.group_size) if isinstance(part, Packed) else None


def evaluate(arrays: Sequence[mx.array], checks: Mapping[StoredTensor, mx.array]) -> None:
    """Read arrays from their files; raises CheckpointError for a tensor whose check is False."""
    mx.eval(*arrays, *checks.values())
    for stored, check in checks.items():
        if not check.item():
            raise not_finite(stored.file, stored.name)


_INFINITY = {mx.float32: 0x7F800000, mx.float16: 0x7C00, mx.bfloat16: 0x7F80}
"""The bits of infinity, by type; those of NaN are larger as integers."""


def is_finite(array: mx.array) -> mx.array:
    """One bool, evaluated later: False if there is NaN or infinity.

    Compares bits as integers, whose maximum MLX finds many times faster on a CPU than that of
    floats: as signed ones positive numbers are the largest, as unsigned ones negative numbers.
    """
    infinity = _INFINITY[array.dtype]
    signed, unsigned = (mx.int32, mx.uint32) if array.itemsize == 4 else (mx.int16, mx.uint16)
    negative = infinity + (1 << 8 * array.itemsize - 1)
    return (array.view(signed).max() < infinity) & (array.view(unsigned).max() < negative)


class Files:
    """Reads stored tensors. Opens each file once and keeps no tensor that was read."""

    def __init__(self) -> None:
        self._open: dict[Path, dict[str, mx.array]] = {}

    def __call__(self, stored: StoredTensor) -> mx.array:
        """Return a tensor, read from the file when evaluated.  Raises KeyError if read before."""
        if stored.file not in self._open:
            self._open[stored.file] = _read_file(stored.file)
        return self._open[stored.file].pop(stored.name)


def _read_file(file: Path) -> dict[str, mx.array]:
    """Open a safetensors file; its tensors are read when evaluated."""
    try:
        arrays: Any = mx.load(str(file))
    except RuntimeError as error:
        raise CheckpointError(f"cannot read {file}: {error}") from error
    return dict(arrays)
