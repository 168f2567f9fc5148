"""Lists of a model's tensors: canonical name, PyTorch's shape, and whether mmspec loads it."""

from collections.abc import Callable, Iterator
from typing import Any

from mmspec.families.tower import TowerParts

Shape = tuple[int, ...]
Tensors = Iterator[tuple[str, Shape, bool]]
"""Name, shape and whether it is loaded; others may be in a checkpoint, and only shapes are checked.
"""

Prefixes = tuple[tuple[str, str], ...]
"""Beginnings of names and what replaces them; the first that matches counts."""


def renamed(name: str, prefixes: Prefixes) -> str:
    """The name with the first matching prefix replaced."""
    for old, new in prefixes:
        if name.startswith(old):
            return new + name.removeprefix(old)
    return name


def listed(take: Callable[[TowerParts], object], *, needed: bool = True) -> Tensors:
    """The tensors that a function takes of a tower's parts; needed: true if they are loaded."""
    listing = _Listing()
    take(listing)
    return ((name, shape, needed) for name, shape in listing.shapes)


class _Listing:
    """Implements `TowerParts` without a checkpoint: lists the tensors and computes nothing."""

    xp: Any = None
    upload: Any = None
    attention: Any = None
    silu: Any = None
    gelu: Any = None
    gelu_tanh: Any = None

    def __init__(self) -> None:
        self.shapes: list[tuple[str, Shape]] = []

    def tensor(self, name: str, *shape: int) -> Any:
        self.shapes.append((name, shape))

    def convolution(self, weight: str, *shape: int, bias: str = "") -> Any:
        self.tensor(weight, *shape)
        if bias:
            self.tensor(bias, shape[0])

    def linear(self, inputs: int, outputs: int, *paths: str) -> Any:
        for path in paths:
            self.convolution(f"{path}.weight", outputs, inputs, bias=f"{path}.bias")

    def layer_norm(self, path: str, width: int, epsilon: float) -> Any:  # noqa: ARG002
        self.convolution(f"{path}.weight", width, bias=f"{path}.bias")

    def rms_norm(self, path: str, width: int, epsilon: float) -> Any:  # noqa: ARG002
        self.tensor(f"{path}.weight", width)
