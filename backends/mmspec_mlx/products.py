"""Products with a fixed matrix, in the layouts that its device multiplies fastest."""

from dataclasses import dataclass

import mlx.core as mx


@dataclass(frozen=True, slots=True)
class Plain:
    """A float matrix, kept as [in, out]: a view of what the file holds, or a copy."""

    transposed: mx.array

    def __call__(self, x: mx.array) -> mx.array:
        """Multiply x [..., in] to [..., out]."""
        return x @ self.transposed

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
        return unpacked(Packed(weight, scales, biases, self.bits, self.group_size))

    @property
    def arrays(self) -> list[mx.array]:
        """The tensors it consists of."""
        return [self.weight, self.scales, self.biases]


Matrix = Plain | Packed


def plain(weight: mx.array) -> Plain:
    """Lay a float weight [out, in] out: a CPU's BLAS reads few rows' factors as they lie."""
    cpu = mx.default_device() == mx.Device(mx.cpu)
    return Plain(mx.contiguous(weight.T) if cpu else weight.T)


def unpacked(part: mx.array | Packed) -> mx.array:
    """The float matrix [out, in] that a part stands for."""
    if isinstance(part, mx.array):
        return part
    bits, group_size = part.bits, part.group_size
    return mx.dequantize(part.weight, part.scales, part.biases, group_size=group_size, bits=bits)
