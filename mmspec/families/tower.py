"""Vision towers: what a family's tower offers, needs of a backend, and takes of a checkpoint.

Shape letters: P rows of a tower (patches, perhaps after a class token), D width of the tower, N
visual positions of one image, B sequences that attend separately, H heads, S size of a head.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

Array = Any
"""An array of a backend's framework, on its device."""

Map = Callable[[Array], Array]
"""Function from rows of I numbers [P, I] to rows of O numbers [P, O]."""

Attend = Callable[[Array, Array, Array], Array]
"""Function from queries, keys and values [P, H, S] to what the rows attend to, [P, D]."""

Shape = tuple[int, ...]
Tensors = Iterator[tuple[str, Shape, bool]]
"""Name, shape and whether it is loaded; others may be in a checkpoint, and only shapes are checked.
"""

Prefixes = tuple[tuple[str, str], ...]
"""Beginnings of names and what replaces them; the first that matches counts."""


class Tower(Protocol):
    """A family's tower and projector, with the tensors of a checkpoint."""

    @property
    def settings(self) -> str:
        """The sizes and options that decide the features together with the tower's tensors."""

    def encode(self, pixels: Array) -> Array:
        """Features [N, D] of pixel values [3, height, width]; of a moment [2, 3, height, width]."""

    def project(self, rows: Array) -> Array:
        """Embeddings of features [N, D]; beside them the outputs that DeepStack adds to layers."""


class TowerParts(Protocol):
    """A checkpoint's tensors by canonical paths, and the array functions of a backend.

    Tensors of paths below `vision_tower.` are the tower's, which models may share; others are the
    projector's. Each is taken once.
    """

    @property
    def xp(self) -> Any:
        """The array namespace, as far as PyTorch and MLX agree on it."""

    def tensor(self, name: str, *shape: int) -> Array:
        """The tensor called `name`."""

    def linear(self, inputs: int, outputs: int, *paths: str) -> Map:
        """The linear layers with biases at `paths`, whose outputs are concatenated."""

    def convolution(self, weight: str, *shape: int, bias: str = "") -> Map:
        """The convolution with these tensors, whose stride is its width, as a map of patches."""

    def layer_norm(self, path: str, width: int, epsilon: float) -> Map:
        """The layer norm at `path`, with a bias."""

    def rms_norm(self, path: str, width: int, epsilon: float) -> Map:
        """The root-mean-square norm at `path`."""

    def upload(self, array: NDArray[np.generic]) -> Array:
        """The array on the device."""

    def attention(
        self, query: Array, key: Array, value: Array, visible: Array | None = None
    ) -> Array:
        """Attention [B, P, D] of [B, P, H, S].  visible: the keys [B, P] that are seen; or all."""

    def silu(self, x: Array) -> Array:
        """x * sigmoid(x)."""

    def gelu(self, x: Array) -> Array:
        """The exact GELU."""

    def gelu_tanh(self, x: Array) -> Array:
        """The GELU by its tanh approximation."""


@dataclass(frozen=True, slots=True)
class TowerLayer:
    """Attention and an MLP, each behind its norm and added to its input."""

    heads: int
    norm1: Map
    qkv: Map
    proj: Map
    norm2: Map
    mlp: Map

    def __call__(self, x: Array, attend: Attend, rotate: Map | None = None) -> Array:
        """The layer's output [P, D] for x [P, D]; rotate: turns queries and keys [P, H, S]."""
        qkv = self.qkv(self.norm1(x)).reshape(len(x), 3, self.heads, -1)
        query, key, value = qkv[:, 0], qkv[:, 1], qkv[:, 2]
        if rotate:
            query, key = rotate(query), rotate(key)
        x = x + self.proj(attend(query, key, value))
        return x + self.mlp(self.norm2(x))


def full_attention(parts: TowerParts) -> Attend:
    """Attention of every row to all rows."""
    return lambda *heads: parts.attention(*(rows[None] for rows in heads))[0]


def mlp(first: Map, activation: Map, second: Map) -> Map:
    """Two linear layers with an activation between them."""
    return lambda x: second(activation(first(x)))


def cut(xp: Any, pixels: Array, size: int, merge: int = 1, frames: int = 1) -> Array:
    """Cut pixel values [3, height, width] or [frames, 3, height, width] into patches.

    Patches [P, 3 * frames * size * size] follow each other in blocks of merge x merge, which are
    row by row. One frame, as an image is, stands for all that a patch has.
    """
    rows, columns = (side // size // merge for side in pixels.shape[-2:])
    blocks = pixels.reshape(-1, 3, rows, merge, size, columns, merge, size)
    patches = xp.permute_dims(blocks, (2, 5, 3, 6, 1, 0, 4, 7)).reshape(-1, 3, len(blocks), size**2)
    patches = xp.broadcast_to(patches, (len(patches), 3, frames, size**2))
    return patches.reshape(len(patches), -1)


def cast(xp: Any, x: Array, dtype: Any) -> Array:
    """The array with numbers of another type."""
    return x if x.dtype == dtype else xp.astype(x, dtype)


def rename(name: str, prefixes: Prefixes) -> str:
    """The name with the first matching prefix replaced."""
    for old, new in prefixes:
        if name.startswith(old):
            return new + name.removeprefix(old)
    return name


def listed(take: Callable[[TowerParts], object], *, is_loaded: bool = True) -> Tensors:
    """The tensors that a function takes of a tower's parts; is_loaded: see `Tensors`."""
    listing = _Listing()
    take(listing)
    return ((name, shape, is_loaded) for name, shape in listing.shapes)


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
