"""Weight-only quantization: matrices held in 8 or 4 bits, multiplied in the activations' type.

Shape letters: n rows, I inputs, O outputs, g inputs of a group, G groups.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from mmspec.errors import UsageError
from mmspec.quantization import Scheme
from mmspec_torch.products import Product

ROWS = 1024
"""Rows quantized at once, in float32: a whole matrix would take four times its own memory."""
INNER_TILES = 8
"""Tiles of 16 inputs that CUDA's kernel reads at once: the most, and so the longest loads."""


class Matrix(Product, Protocol):
    """A quantized weight [O, I] to multiply with."""

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        """All that it holds."""
        ...


@dataclass(frozen=True, slots=True)
class Integers8:
    """Symmetric, one scale for all inputs of an output: w = scale * q, q from -127 to 127."""

    q: Tensor
    """int8 [O, I]"""
    scale: Tensor
    """[O, 1], of the activations' type."""

    @classmethod
    def of(cls, weight: Tensor) -> "Integers8":
        """Quantize a weight [O, I] to the nearest."""
        scale = _scale(weight.abs().amax(dim=1, keepdim=True).float() / 127, weight.dtype)
        q = torch.empty(weight.shape, dtype=torch.int8, device=weight.device)
        for some in _some_rows(weight):
            q[some] = (weight[some].float() / scale[some].float()).round_().clamp_(-127, 127)
        return cls(q, scale)

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        """What is held."""
        return self.q, self.scale

    def unpacked(self) -> Tensor:
        """The weight [O, I]."""
        return torch.mul(self.q, self.scale)


@dataclass(frozen=True, slots=True)
class Integers4:
    """Affine, a scale and a centre for each group: w = scale * (q - 8) + centre, q from 0 to 15."""

    q: Tensor
    """uint8 [O, I / 2]: the first half of the inputs in the low four bits, the second above."""
    scale: Tensor
    """[O, G, 1], of the activations' type."""
    centre: Tensor
    """[O, G, 1]"""

    @classmethod
    def of(cls, weight: Tensor, group: int) -> "Integers4":
        """Quantize a weight [O, I] to the nearest, from each group's least to its greatest."""
        grouped = weight.view(len(weight), -1, group)
        least, greatest = (each.float() for each in grouped.aminmax(dim=2, keepdim=True))
        scale = _scale((greatest - least) / 15, weight.dtype)
        centre = (least + 8 * scale.float()).to(weight.dtype)
        shape = len(weight), weight.shape[1] // 2
        q = torch.empty(shape, dtype=torch.uint8, device=weight.device)
        for some in _some_rows(weight):
            steps = (grouped[some].float() - centre[some].float()) / scale[some].float()
            low, high = steps.round_().add_(8).clamp_(0, 15).to(torch.uint8).flatten(1).chunk(2, 1)
            q[some] = low | high << 4
        return cls(q, scale, centre)

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        """What is held."""
        return self.q, self.scale, self.centre

    def bytes(self) -> Tensor:
        """q, one to a byte [O, I]."""
        return torch.cat((self.q & 15, self.q >> 4), dim=1)

    def unpacked(self) -> Tensor:
        """The weight [O, I]."""
        centred = self.bytes().to(self.scale.dtype).sub_(8)
        grouped = centred.view(*self.scale.shape[:2], -1)
        return grouped.mul_(self.scale).add_(self.centre).flatten(1)


def _scale(steps: Tensor, dtype: torch.dtype) -> Tensor:
    """Steps as they are held; one where all weights are alike and any will do."""
    held = steps.to(dtype)
    return torch.where(held == 0, 1, held)


def _some_rows(weight: Tensor) -> Iterator[slice]:
    """All rows, a few at a time."""
    return (slice(start, start + ROWS) for start in range(0, len(weight), ROWS))


class Unpacked:
    """Unpacks the whole matrix for every product: any device and type; saves memory, not time."""

    vectors = 0

    def __init__(self, integers: Integers8 | Integers4) -> None:
        """Keep the integers."""
        self._integers = integers

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        """What is held."""
        return self._integers.tensors

    def __call__(self, x: Tensor) -> Tensor:
        """Multiply x [n, I]."""
        return torch.mm(x, self._integers.unpacked().T)

    def added(self, x: Tensor, to: Tensor) -> Tensor:
        """Add the product of x [n, I] to `to` in place."""
        return to.addmm_(x, self._integers.unpacked().T)


class Kernel:
    """Multiplied by a kernel that reads the integers as they are."""

    vectors = 0

    def __init__(self, multiply: Callable[..., Tensor], *held: Tensor | int) -> None:
        """Call `multiply` with the activations and what is `held`."""
        self._multiply, self._held = multiply, held

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        """What is held."""
        return tuple(each for each in self._held if isinstance(each, Tensor))

    def __call__(self, x: Tensor) -> Tensor:
        """Multiply x [n, I]."""
        return self._multiply(x.contiguous(), *self._held)

    def added(self, x: Tensor, to: Tensor) -> Tensor:
        """Add the product of x [n, I] to `to` in place."""
        return to.add_(self(x))


def quantized(weight: Tensor, scheme: Scheme, name: str) -> Matrix:
    """Quantize a weight [O, I], called `name` in errors, for where it lies and its own type.

    Raises UsageError where groups do not divide the inputs.
    """
    if scheme.group is None:
        return _in_bytes(Integers8.of(weight))
    if weight.shape[1] % scheme.group:
        raise UsageError(
            f"{name} has {weight.shape[1]} inputs, which do not divide into groups of "
            f"{scheme.group}: give --quantize int8, or int4-32 where 32 divides them"
        )
    return _in_nibbles(Integers4.of(weight, scheme.group), scheme.group)


def _in_bytes(integers: Integers8) -> Matrix:
    """By PyTorch's kernel for CPUs; CUDA's gives an output to one thread, with rows far apart."""
    q, scale = integers.tensors
    if scale.dtype == torch.bfloat16 and scale.device.type == "cpu":
        return Kernel(torch.ops.aten._weight_int8pack_mm, q, scale.flatten())  # noqa: SLF001
    return Unpacked(integers)


def _in_nibbles(integers: Integers4, group: int) -> Matrix:
    """By PyTorch's kernels: CUDA's are of bfloat16 alone, and CPUs' fast in it alone."""
    tiled = _tiled(integers) if integers.scale.dtype == torch.bfloat16 else None
    if not tiled:
        return Unpacked(integers)
    multiply, q = tiled
    pairs = torch.cat((integers.scale, integers.centre), dim=2).transpose(0, 1).contiguous()
    return Kernel(multiply, q, group, pairs)


def _tiled(integers: Integers4) -> tuple[Callable[..., Tensor], Tensor] | None:
    """A kernel and the integers as it reads them; None where there is none for them."""
    aten, q = torch.ops.aten, integers.bytes()
    outputs, inputs = q.shape
    if q.device.type == "cpu" and outputs % 16 == 0:
        tiles = aten._convert_weight_to_int4pack_for_cpu(q.int(), 1)  # noqa: SLF001
        return aten._weight_int4pack_mm_for_cpu, tiles  # noqa: SLF001
    if has_kernel(q.device) and outputs % 8 == 0 and inputs % (16 * INNER_TILES) == 0:
        pairs = q[:, ::2] << 4 | q[:, 1::2]
        return aten._weight_int4pack_mm, aten._convert_weight_to_int4pack(pairs, INNER_TILES)  # noqa: SLF001
    return None


def has_kernel(device: torch.device) -> bool:
    """Whether it is a CUDA device that PyTorch's kernel for 4 bits runs on."""
    return device.type == "cuda" and torch.cuda.get_device_capability(device) >= (8, 0)
