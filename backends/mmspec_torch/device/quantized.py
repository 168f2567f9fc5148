"""Weight-only quantization: matrices stored in 8 or 4 bits, multiplied in the activations' dtype.

Shape letters: n rows, I inputs, O outputs, g inputs of a group, G groups.
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from mmspec.checkpoints.quantization import Scheme
from mmspec.ground.errors import UsageError
from mmspec_torch.device.products import Product

ROWS = 1024
"""Number of rows quantized at once: a float32 copy of a whole matrix would take much memory."""
INNER_TILES = 8
"""Number of tiles of 16 inputs that CUDA's int4 kernel reads at once; 8 is its maximum."""
WIDE = 128
"""Inputs of a group in which the int4 kernel reads one half of int8 weights."""


class QuantizedMatrix(Product):
    """A quantized weight [O, I] to multiply with."""

    tensors: tuple[Tensor, ...]
    """All tensors of the matrix."""


class Integers8(NamedTuple):
    """Symmetric int8 weights with one scale per output: w = scale * q, q from -127 to 127."""

    q: Tensor
    """[O, I] int8, the quantized weight."""
    scale: Tensor
    """[O, 1] the scale of each output, in the activations' dtype."""

    @classmethod
    def of(cls, weight: Tensor) -> "Integers8":
        """Quantize a weight [O, I], rounding to the nearest."""
        scale = _scale(weight.abs().amax(dim=1, keepdim=True).float() / 127, weight.dtype)
        q = torch.empty(weight.shape, dtype=torch.int8, device=weight.device)
        for rows in _row_slices(weight):
            q[rows] = (weight[rows].float() / scale[rows].float()).round_().clamp_(-127, 127)
        return cls(q, scale)

    def dequantize(self) -> Tensor:
        """Return the dequantized weight [O, I]."""
        return torch.mul(self.q, self.scale)


class Integers4(NamedTuple):
    """Affine 4-bit weights in groups of inputs: w = scale * (q - 8) + centre, q from 0 to 15."""

    q: Tensor
    """uint8 [O, I / 2]: the first half of the inputs in the low bits, the second in the high."""
    scale: Tensor
    """[O, G, 1] the scale of each group, in the activations' dtype."""
    centre: Tensor
    """[O, G, 1] the centre of each group's values."""

    @classmethod
    def of(cls, weight: Tensor, group: int) -> "Integers4":
        """Quantize a weight [O, I]; a group's least value becomes q = 0, its greatest q = 15."""
        groups = weight.view(len(weight), -1, group)
        least, greatest = (bound.float() for bound in groups.aminmax(dim=2, keepdim=True))
        scale = _scale((greatest - least) / 15, weight.dtype)
        centre = (least + 8 * scale.float()).to(weight.dtype)
        shape = len(weight), weight.shape[1] // 2
        q = torch.empty(shape, dtype=torch.uint8, device=weight.device)
        for rows in _row_slices(weight):
            steps = (groups[rows].float() - centre[rows].float()) / scale[rows].float()
            low, high = steps.round_().add_(8).clamp_(0, 15).to(torch.uint8).flatten(1).chunk(2, 1)
            q[rows] = low | high << 4
        return cls(q, scale, centre)

    def bytes(self) -> Tensor:
        """Return q [O, I] with one number per byte."""
        return torch.cat((self.q & 15, self.q >> 4), dim=1)

    def dequantize(self) -> Tensor:
        """Return the dequantized weight [O, I]."""
        groups = self.bytes().to(self.scale.dtype).sub_(8).view(*self.scale.shape[:2], -1)
        return groups.mul_(self.scale).add_(self.centre).flatten(1)


def _scale(steps: Tensor, dtype: torch.dtype) -> Tensor:
    """`steps` in `dtype`; 1 in place of 0, for groups whose weights are all equal."""
    scale = steps.to(dtype)
    return torch.where(scale == 0, 1, scale)


def _row_slices(weight: Tensor) -> Iterator[slice]:
    return (slice(start, start + ROWS) for start in range(0, len(weight), ROWS))


class Dequantizer(QuantizedMatrix):
    """Dequantizes the matrix for every product: works anywhere, saves memory but no time."""

    def __init__(self, integers: Integers8 | Integers4) -> None:
        self.tensors = self._integers = integers

    def __call__(self, x: Tensor) -> Tensor:
        """Return the product [n, O] of x [n, I]."""
        return torch.mm(x, self._integers.dequantize().T)

    def add(self, x: Tensor, to: Tensor) -> Tensor:
        """Add the product of x [n, I] to `to` [n, O] in place, in one operation."""
        return to.addmm_(x, self._integers.dequantize().T)


class Kernel(QuantizedMatrix):
    """A matrix multiplied by a kernel that reads the quantized integers directly."""

    def __init__(self, multiply: Callable[..., Tensor], *arguments: Tensor | int) -> None:
        self._multiply, self._arguments = multiply, arguments
        self.tensors = tuple(a for a in arguments if isinstance(a, Tensor))

    def __call__(self, x: Tensor) -> Tensor:
        """Return the product [n, O] of x [n, I]."""
        return self._multiply(x.contiguous(), *self._arguments)


class Halves(QuantizedMatrix):
    """An int8 matrix as the sum of two in 4 bits: q = 16 * (q >> 4) + (q & 15)."""

    def __init__(self, high: Kernel, low: Kernel) -> None:
        self._high, self._low, self.tensors = high, low, high.tensors + low.tensors

    def __call__(self, x: Tensor) -> Tensor:
        """Return the product [n, O] of x [n, I]."""
        return self._low.add(x, self._high(x))


def quantized(weight: Tensor, scheme: Scheme, name: str) -> QuantizedMatrix:
    """Quantize a weight [O, I] for its own device and dtype; errors call it `name`.

    It is a `Dequantizer` where PyTorch has no kernel, as for other types than bfloat16.  Raises
    UsageError if the inputs don't divide into groups.
    """
    if scheme.group is None:
        return _in_bytes(Integers8.of(weight))
    if weight.shape[1] % scheme.group:
        raise UsageError(
            f"{name} has {weight.shape[1]} inputs, which do not divide into groups of "
            f"{scheme.group}: give `quantize=int8`, or int4-32 where 32 divides them"
        )
    integers = Integers4.of(weight, scheme.group)
    if weight.dtype != torch.bfloat16:
        return Dequantizer(integers)
    kernel = _kernel(integers.bytes(), scheme.group, integers.scale, integers.centre)
    return kernel or Dequantizer(integers)


def _in_bytes(integers: Integers8) -> QuantizedMatrix:
    """Return the matrix for the fastest kernel of int8."""
    q, scale = integers
    if scale.dtype != torch.bfloat16:
        return Dequantizer(integers)
    if scale.device.type == "cpu":
        return Kernel(torch.ops.aten._weight_int8pack_mm, q, scale.flatten())  # noqa: SLF001
    # CUDA's kernel for int8 is slower than unpacking: 263 and 204 us for 11,008 x 4,096, H200.
    scales = scale.expand(-1, q.shape[1] // WIDE).unsqueeze(2)
    high = _kernel((q >> 4) + 8, WIDE, 16 * scales, torch.zeros_like(scales))
    low = _kernel(q & 15, WIDE, scales, 8 * scales)
    return Halves(high, low) if high and low else Dequantizer(integers)


def _kernel(q: Tensor, group: int, scale: Tensor, centre: Tensor) -> Kernel | None:
    """Return an int4 kernel for q [O, I] from 0 to 15; None if none takes its shape.

    scale, centre: [O, G, 1], see `Integers4`.
    """
    aten, (outputs, inputs) = torch.ops.aten, q.shape
    pairs = torch.cat((scale, centre), dim=2).transpose(0, 1).contiguous()
    if q.device.type == "cpu" and outputs % 16 == 0:
        tiles = aten._convert_weight_to_int4pack_for_cpu(q.int(), 1)  # noqa: SLF001
        return Kernel(aten._weight_int4pack_mm_for_cpu, tiles, group, pairs)  # noqa: SLF001
    if has_kernel(q.device) and outputs % 8 == 0 and inputs % (16 * INNER_TILES) == 0:
        octets = (q[:, ::2] << 4 | q[:, 1::2]).to(torch.uint8)
        tiles = aten._convert_weight_to_int4pack(octets, INNER_TILES)  # noqa: SLF001
        return Kernel(aten._weight_int4pack_mm, tiles, group, pairs)  # noqa: SLF001
    return None


def has_kernel(device: torch.device) -> bool:
    """Return whether PyTorch's int4 kernel for CUDA runs on the device."""
    return device.type == "cuda" and torch.cuda.get_device_capability(device) >= (8, 0)
