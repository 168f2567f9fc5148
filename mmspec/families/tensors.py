"""Lists of a model's tensors: canonical name, PyTorch's shape, and whether mmspec loads it."""

from collections.abc import Iterator

Shape = tuple[int, ...]
Tensors = Iterator[tuple[str, Shape, bool]]
"""Name, shape and whether it is loaded; others may be in a checkpoint, and only shapes are checked.
"""

Prefixes = tuple[tuple[str, str], ...]
"""Beginnings of names and what replaces them; the first that matches counts."""


def affine(path: str, *shape: int, needed: bool = True) -> Tensors:
    """Yield a weight of `shape` and its bias of length shape[0]."""
    yield f"{path}.weight", shape, needed
    yield f"{path}.bias", shape[:1], needed


def renamed(name: str, prefixes: Prefixes) -> str:
    """The name with the first matching prefix replaced."""
    for old, new in prefixes:
        if name.startswith(old):
            return new + name.removeprefix(old)
    return name
