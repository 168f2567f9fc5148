"""PyTorch's operations for drafting a tree.

Shape letters: w nodes expanded at once, E nodes expanded so far.
"""

from functools import partial

import torch
from torch import Tensor

from mmspec.decoding.sampling import Sampler
from mmspec.decoding.tree import Tree
from mmspec.decoding.tree_drafting import Expander, TreeArrays, draft_tree
from mmspec_torch.device_io import upload
from mmspec_torch.network.llama import hidden
from mmspec_torch.sequence.draft import TorchDraft


def tree_draft(
    sampler: Sampler, expander: Expander, tree: Tree, k: int, keys: Tensor
) -> TorchDraft:
    """Draft a tree with `mmspec.decoding.tree_drafting.draft_tree`."""
    integers = partial(upload, dtype=torch.int64, device=keys.device)
    arrays = TreeArrays(sampler, integers)
    ids, parents, depth = draft_tree(arrays, expander, tree, k, keys)
    return TorchDraft(ids, parents=parents, levels=depth)


class Lineage:
    """The attention masks of a tree that is drafted level by level.

    A node sees its ancestors and itself. The masks cover the tree's own columns, which follow the
    committed ones.
    """

    def __init__(self) -> None:
        self._mask: Tensor | None = None

    def add(self, parents: Tensor, like: Tensor) -> Tensor:
        """Append a level of w nodes; returns the mask [w, E], in the dtype of `like`.

        parents: [w] indices into the level before, as in `Expander.expand`.
        """
        count = parents.shape[0]
        own = like.new_full((count, count), hidden(like.dtype)).fill_diagonal_(0)
        above = () if self._mask is None else (self._mask.index_select(0, parents),)
        self._mask = torch.cat((*above, own), dim=1)
        return self._mask
