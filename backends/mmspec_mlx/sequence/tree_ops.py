"""MLX's operations for drafting a tree.

Shape letters: w nodes expanded at once, E nodes expanded so far.
"""

from collections.abc import Sequence

import mlx.core as mx

from mmspec.decoding.sampling import Sampler
from mmspec.decoding.tree import Tree
from mmspec.decoding.tree_drafting import Expander, TreeArrays, draft_tree
from mmspec_mlx.network.llama import additive
from mmspec_mlx.sequence.draft import MlxDraft


def tree_draft(
    sampler: Sampler, expander: Expander, tree: Tree, k: int, keys: mx.array
) -> MlxDraft:
    """Draft a tree with `mmspec.decoding.tree_drafting.draft_tree`."""
    arrays = TreeArrays(sampler, integers)
    ids, parents, depth = draft_tree(arrays, expander, tree, k, keys)
    return MlxDraft(ids, parents=parents, levels=depth)


def integers(values: Sequence[int]) -> mx.array:
    """Copy signed integers [n] to the device."""
    return mx.array(list(values), dtype=mx.int32)


class Lineage:
    """The attention masks of a tree that is drafted level by level.

    A node sees its ancestors and itself. The masks cover the tree's own columns, which follow the
    committed ones.
    """

    def __init__(self) -> None:
        self._mask: mx.array | None = None

    def add(self, parents: mx.array, dtype: mx.Dtype) -> mx.array:
        """Append a level of w nodes; returns the mask [w, E] of type `dtype`.

        parents: [w] indices into the level before, as in `Expander.expand`.
        """
        own = additive(mx.eye(parents.shape[0]) > 0, dtype)
        above = [] if self._mask is None else [mx.take(self._mask, parents, axis=0)]
        self._mask = mx.concatenate([*above, own], axis=1)
        return self._mask
