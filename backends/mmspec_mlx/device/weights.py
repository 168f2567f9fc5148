"""Loads a checkpoint's tensors to the device; quantized matrices stay packed."""

from collections.abc import Callable, Mapping
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
from mmspec_mlx.device.products import LinearLayer, Matrix, MatrixGroup, Plain, for_few_rows, plain
from mmspec_mlx.device.quantized import QuantizedMatrix, dequantize

Linear = Callable[[mx.array], mx.array]
"""Function from x [..., in] to [..., out]: a matrix, with or without a bias."""


class Weights:
    """Implements `mmspec.decoding.layers.LayerTensors`.

    What it returns has been read from the files, so that peak memory is the model and one layer.
    """

    def __init__(
        self,
        sources: Mapping[str, TensorSource],
        dtype: mx.Dtype,
        read: Callable[[StoredTensor], mx.array],
    ) -> None:
        """read: returns the array of a stored tensor, which MLX reads later."""
        self.dtype, self.framework = dtype, framework(kernels(dtype))
        self._sources = dict(sources)
        self._read = read
        self._checks: dict[StoredTensor, mx.array] = {}
        """False for each tensor that turns out to hold NaN or infinity, until it is evaluated."""

    @property
    def remainder(self) -> list[str]:
        """The names of the tensors that have not been taken yet."""
        return list(self._sources)

    def tensor(self, name: str) -> mx.array:
        """Return a tensor with PyTorch's order of axes, dequantized if it is quantized."""
        return self._evaluate(dequantize(self._take(name)))

    def matrix(self, *names: str) -> Matrix:
        """Return matrices side by side: those that are packed alike are fused, floats too."""
        parts = [self._take(name) for name in names]
        groups = groupby(parts, lambda p: isinstance(p, QuantizedMatrix) and (p.bits, p.group_size))
        matrices = [self._fuse(list(group)) for _, group in groups]
        return matrices[0] if len(matrices) == 1 else MatrixGroup(matrices)

    def _fuse(self, parts: list[mx.array | QuantizedMatrix]) -> Plain | QuantizedMatrix:
        """Return as one matrix those that are packed alike."""
        packs = [part for part in parts if isinstance(part, QuantizedMatrix)]
        if not packs:
            matrix = plain(mx.concatenate([dequantize(part) for part in parts]))
            self._evaluate(matrix.transpose)
            return matrix
        kinds = zip(*(pack.arrays for pack in packs), strict=True)  # weights, scales, biases
        arrays = [self._evaluate(mx.concatenate(list(kind))) for kind in kinds]
        return replace(packs[0], arrays=arrays)

    def linear_layer(self, *paths: str, few_rows: bool = False) -> LinearLayer:
        """Return matrices and biases of linear layers, fused along their outputs."""
        matrix = self.matrix(*(f"{path}.weight" for path in paths))
        bias = mx.concatenate([self.tensor(f"{path}.bias") for path in paths])
        matrix = self.for_few_rows(matrix) if few_rows else matrix
        return LinearLayer(matrix, self._evaluate(bias))

    def linear(self, *paths: str, bias: bool = True) -> Matrix | LinearLayer:
        """Return linear layers of the same input as one, laid out for products with few rows."""
        if bias:
            return self.linear_layer(*paths, few_rows=True)
        return self.for_few_rows(self.matrix(*(f"{path}.weight" for path in paths)))

    def norm(self, path: str, eps: float) -> Linear:
        """Take the root-mean-square norm at `path`."""
        return kernels(self.dtype).rms_norm(self.tensor(f"{path}.weight"), eps)

    def heads_norm(self, weight: mx.array, eps: float) -> Linear:
        """The root-mean-square norm of heads [..., g, D] with a weight [g, D]."""
        ones = mx.ones(weight.shape[-1], weight.dtype)
        mx.eval(ones, weight)  # another thread cannot evaluate what this one left
        return lambda x: mx.fast.rms_norm(x, ones, eps) * weight

    def for_few_rows(self, matrix: Matrix) -> Matrix:
        """Return a matrix laid out for inputs of few rows; see `mmspec_mlx.device.products`."""
        layout = for_few_rows(matrix)
        for array in layout.arrays:
            self._evaluate(array)
        return layout

    def table(self, name: str) -> Plain | QuantizedMatrix:
        """Return a matrix to look up rows in."""
        part = self._take(name)
        if isinstance(part, QuantizedMatrix):
            return self._fuse([part])
        return Plain(self._evaluate(part.T))

    def _take(self, name: str) -> mx.array | QuantizedMatrix:
        source = self._sources.pop(name)
        if (packing := source.packing) is not None:
            affine = [self._floats(entry) for entry in (packing.scales, packing.biases)]
            arrays = [self._read(source.tensor), *affine]
            return QuantizedMatrix(arrays, packing.bits, packing.group_size)
        array = self._floats(source.tensor, 1 if source.less_one else 0)
        return mx.moveaxis(array, -1, 1) if source.layout == "mlx" else array

    def _floats(self, entry: StoredTensor, offset: int = 0) -> mx.array:
        array = self._read(entry)
        array = (array.astype(mx.float32) + offset if offset else array).astype(self.dtype)
        self._checks[entry] = is_finite(array)
        return array

    def _evaluate(self, array: mx.array) -> mx.array:
        """Read an array from its files.  Raises CheckpointError for a tensor that is not finite."""
        checks, self._checks = self._checks, {}
        mx.eval(array, *checks.values())
        for entry, check in checks.items():
            if not check.item():
                raise not_finite(entry.file, entry.name)
        return array


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

    def __call__(self, entry: StoredTensor) -> mx.array:
        """Return a tensor, read from the file when evaluated.  Raises KeyError if read before."""
        if entry.file not in self._open:
            try:
                arrays: Any = mx.load(str(entry.file))
            except RuntimeError as error:
                raise CheckpointError(f"cannot read {entry.file}: {error}") from error
            self._open[entry.file] = dict(arrays)
        return self._open[entry.file].pop(entry.name)
