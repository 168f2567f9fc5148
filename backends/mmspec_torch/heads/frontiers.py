"""Heads asked for one level of drafted tokens after another; see `mmspec.growth.Frontier`.

A chain is a tree that is one node wide, whose parents need not be told. Levels are returned as
`said` makes them of features [w, H]: logits for a chain, probabilities for a tree.

Shape letters: w nodes expanded at once, E expanded so far, K slots, V vocabulary, H width.
"""

from collections.abc import Callable, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from mmspec_torch.cache import Cache, Span
from mmspec_torch.growth import Lineage
from mmspec_torch.heads.modules import Successor
from mmspec_torch.llama import Decoder, Step

Said = Callable[[Tensor], Tensor]
"""From features [w, H] to rows [w, V]."""
Embed = Callable[[Tensor], Tensor]
"""From ids [w] to the target's embeddings [w, H]."""
Fuse = Callable[[Tensor, Tensor], Tensor]
"""From embeddings and features [w, H] to what the layer is fed, [w, H]."""


def of(rows: Tensor, parents: Tensor | None) -> Tensor:
    """Each node's parent's row: rows [E, H] and parents [w] give [w, H]."""
    return rows if parents is None else rows.index_select(0, parents)


class Recurrent:
    """EAGLE's way: a drafted token's feature is fed on in place of the target's hidden state."""

    def __init__(
        self,
        decoder: Decoder,
        cache: Cache,
        columns: int,
        feature: Tensor,
        fuse: Fuse,
        embed: Embed,
        said: Said,
    ) -> None:
        """Start behind `columns` of the cache, the last of which gave `feature` [1, H]."""
        self._decoder, self._cache, self._features = decoder, cache, feature
        self._fuse, self._embed, self._said = fuse, embed, said
        self._columns = self._end = self._position = columns
        self._lineage = Lineage()

    def root(self) -> Tensor:
        """Rows [1, V] of the token after the sequence."""
        return self._said(self._features)

    def expand(self, tokens: Tensor, parents: Tensor | None) -> Tensor:
        """Rows [w, V] of what follows nodes of the next level."""
        x = self._fuse(self._embed(tokens), of(self._features, parents))
        mask = None if parents is None else self._lineage.add(parents, x)
        start, self._end = self._end, self._end + len(x)
        step = Step(
            self._decoder.rotary.run(self._position, self._position + 1),
            Span(self._cache, start, self._end),
            None if mask is None else F.pad(mask, (self._columns, 0)),
        )
        self._position += 1
        self._features = self._decoder.forward(x, step)
        return self._said(self._features)


class Block:
    """Medusa's and FLASH's way: all places at once, none knowing the tokens before it."""

    def __init__(self, features: Tensor, said: Said) -> None:
        """Take the features [K, H] of as many places as are asked for."""
        self._rows = said(features)
        self._level = 0

    def root(self) -> Tensor:
        """Rows [1, V] of the token after the sequence."""
        return self._rows[:1]

    def expand(self, tokens: Tensor, parents: Tensor | None) -> Tensor:  # noqa: ARG002
        """Rows [w, V] of the next place, the same for every node."""
        self._level += 1
        return self._rows[self._level : self._level + 1].expand(len(tokens), -1)


class Successive:
    """Hydra's way: one hidden state, and a head per place that knows the tokens before it."""

    def __init__(
        self, heads: Sequence[Successor], state: Tensor, last: Tensor, embed: Embed, said: Said
    ) -> None:
        """Start from a state [1, H] and the embedding [1, H] of the token that came of it."""
        self._heads = iter(heads)
        self._state, self._known = state, torch.cat((state, last), dim=-1)
        self._embed, self._said = embed, said

    def root(self) -> Tensor:
        """Rows [1, V] of the token after the sequence."""
        return self._said(next(self._heads)(self._state, self._known))

    def expand(self, tokens: Tensor, parents: Tensor | None) -> Tensor:
        """Rows [w, V] of what follows nodes of the next level."""
        known = of(self._known, parents)
        self._known = torch.cat((known, self._embed(tokens)), dim=-1)
        return self._said(next(self._heads)(self._state, self._known))
