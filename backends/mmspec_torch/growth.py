"""What growing a tree needs of PyTorch.

Shape letters: V entries to choose from, w nodes expanded at once, E nodes expanded so far.
"""

from collections.abc import Sequence

import array_api_compat.torch as xp
import torch
from torch import Tensor

from mmspec.growth import Arrays, Frontier, grow
from mmspec.tree import Tree
from mmspec_torch.device import upload
from mmspec_torch.draft import TorchDraft
from mmspec_torch.llama import hidden


def grown(frontier: Frontier, tree: Tree, k: int, device: torch.device) -> TorchDraft:
    """The draft that a tree grows into; see `mmspec.growth.grow`."""

    def integers(values: Sequence[int]) -> Tensor:
        return upload(values, torch.int64, device)

    ids, parents, depth = grow(Arrays(xp, top, integers), frontier, tree, k)
    return TorchDraft(ids, parents=parents, levels=depth)


def top(p: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """The largest entries [..., count] of p [..., V] and where they are, of equals the first."""
    # Floats that are not negative are ordered as their bits; the place below them settles ties.
    place = torch.arange(p.shape[-1], device=p.device)
    key = p.contiguous().view(torch.int32).to(torch.int64).bitwise_left_shift(32) - place
    chosen = key.topk(count).indices
    return p.gather(-1, chosen), chosen


class Lineage:
    """Which of the nodes expanded so far each of the newest sees: its ancestors and itself.

    Its masks are what a drafter adds to attention's scores for the columns that it feeds nodes to,
    level after level, behind its committed ones.
    """

    def __init__(self) -> None:
        """Nothing is expanded yet."""
        self._mask: Tensor | None = None

    def add(self, parents: Tensor, like: Tensor) -> Tensor:
        """Append a level of w nodes; returns the mask [w, E] of type `like`'s.

        parents: [w] places in the level before, as `Frontier.expand` is given them.
        """
        count = parents.shape[0]
        own = like.new_full((count, count), hidden(like.dtype)).fill_diagonal_(0)
        above = () if self._mask is None else (self._mask.index_select(0, parents),)
        self._mask = torch.cat((*above, own), dim=1)
        return self._mask
