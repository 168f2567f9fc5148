"""What growing a tree needs of MLX.

Shape letters: V entries to choose from, w nodes expanded at once, E nodes expanded so far.
"""

from collections.abc import Sequence
from typing import Any

import mlx.core as mx

from mmspec.growth import Arrays, Frontier, grow
from mmspec.tree import Tree
from mmspec_mlx.draft import MlxDraft
from mmspec_mlx.llama import additive


def grown(frontier: Frontier, tree: Tree, k: int, xp: Any = mx) -> MlxDraft:
    """The draft that a tree grows into; see `mmspec.growth.grow`."""
    ids, parents, depth = grow(Arrays(xp, top, integers), frontier, tree, k)
    return MlxDraft(ids, parents=parents, levels=depth)


def integers(values: Sequence[int]) -> mx.array:
    """Bring signed integers [n] to the device."""
    return mx.array(list(values), dtype=mx.int32)


def top(p: mx.array, count: int) -> tuple[mx.array, mx.array]:
    """The largest entries [..., count] of p [..., V] and where they are, of equals the first."""
    # Floats that are not negative are ordered as their bits; the place below them settles ties.
    place = mx.arange(p.shape[-1], dtype=mx.int64)
    key = place - mx.left_shift(p.view(mx.int32).astype(mx.int64), 32)
    some = mx.argpartition(key, count - 1, axis=-1)[..., :count]
    order = mx.argsort(mx.take_along_axis(key, some, axis=-1), axis=-1)
    chosen = mx.take_along_axis(some, order, axis=-1)
    return mx.take_along_axis(p, chosen, axis=-1), chosen.astype(mx.int32)


class Lineage:
    """Which of the nodes expanded so far each of the newest sees: its ancestors and itself.

    Its masks are what a drafter adds to attention's scores for the columns that it feeds nodes to,
    level after level, behind its committed ones.
    """

    def __init__(self) -> None:
        """Nothing is expanded yet."""
        self._mask: mx.array | None = None

    def add(self, parents: mx.array, dtype: mx.Dtype) -> mx.array:
        """Append a level of w nodes; returns the mask [w, E] of type `dtype`.

        parents: [w] places in the level before, as `Frontier.expand` is given them.
        """
        own = additive(mx.eye(parents.shape[0]) > 0, dtype)
        above = [] if self._mask is None else [mx.take(self._mask, parents, axis=0)]
        self._mask = mx.concatenate([*above, own], axis=1)
        return self._mask
