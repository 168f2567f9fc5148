"""How a target feeds its last token and a draft: in one forward, or with exact numbers of rows.

Shape letters: n tokens drafted, m rows of one forward, V vocabulary, H width.
"""

from collections.abc import Callable
from typing import Any, Generic, NamedTuple, Protocol

from mmspec.decoding.block_attention import BLOCK, Places, chain_places, tree_places, whole_blocks
from mmspec.decoding.draft import Ancestry
from mmspec.decoding.exact_rows import ExactRows, Tile
from mmspec.decoding.framework import Framework
from mmspec.ground.arrays import A


class Columns(NamedTuple):
    """The cache columns of a forward's rows, and the columns that each row sees."""

    first: int
    """The column of the first row; the others follow it."""
    ancestry: Ancestry | None = None
    """The nodes of a tree that each row sees; None for a chain."""
    root: int = 0
    """The column of the tree's root."""
    depth: int = 0
    """The most ancestors of a node."""
    multiple: int | None = None
    """`ExactRows.multiple` of exact rows, which attend by blocks; None for other rows."""
    steps: int = 0
    """The number of rows that recurrent layers compute one after another, padding comes after them;
    0 computes a prompt's in chunks."""

    def places(self, xp: Any, count: Callable[[int], Any], rows: int) -> Places:
        """The places of exact rows; count: function from n to the integers below n."""
        end, multiple = self.first + rows, self.multiple or 1
        if self.ancestry is None:
            return chain_places(xp, count, count(rows) + self.first, end, multiple)
        blocks = whole_blocks(end) // BLOCK - self.root // BLOCK
        return tree_places(xp, count, self.ancestry, self.root, end, multiple, blocks)


class Outputs(NamedTuple, Generic[A]):
    """What feeding the last token and n drafted ones computes."""

    states: A
    """[n + 1, H] the hidden states."""
    logits: A
    """[n + 1, V] the logits of the tokens after them."""


class TargetForwards(Protocol[A]):
    """The forwards of a target, which store hidden states for a head."""

    def embed_columns(self, start: int, stop: int) -> A:
        """Embeddings [n, H] of the columns `start` to `stop`."""

    def forward(self, x: A, columns: Columns) -> A:
        """Feed embeddings [m, H] to columns; returns the hidden states [m, H]."""

    def project(self, states: A) -> A:
        """Logits [m, V] of hidden states [m, H]."""

    def prefill(self, start: int, stop: int) -> None:
        """Feed the columns `start` to `stop` as those of a prompt."""

    def settle(self) -> None:
        """Wait until all writes are computed, in a framework that computes lazily."""


class Feeding(Generic[A]):
    """Feeds the tokens that a target decodes in one forward, and earlier answers like prompts."""

    def feed(self, target: TargetForwards[A], x: A, columns: Columns) -> Outputs[A]:
        """Feed the embeddings x [n + 1, H] of the last token and a draft."""
        states = target.forward(x, columns)
        return Outputs(states, target.project(states))

    def feed_answer(self, target: TargetForwards[A], start: int, stop: int) -> None:
        """Feed columns of an earlier answer."""
        target.prefill(start, stop)


class ExactFeeding(Feeding[A]):
    """Feeds in forwards of exact numbers of rows."""

    def __init__(self, framework: Framework[A], rows: ExactRows) -> None:
        self._framework, self._rows = framework, rows

    def feed(self, target: TargetForwards[A], x: A, columns: Columns) -> Outputs[A]:
        """Feed the embeddings x [n + 1, H] of the last token and a draft."""
        parts: list[Outputs[A]] = []
        for tile in self._rows.tiles(len(x)):
            states, count = self._forward(target, x, columns, tile), tile.stop - tile.start
            parts.append(Outputs(states[:count], target.project(states)[:count]))
        if len(parts) == 1:
            return parts[0]
        states, logits = (self._framework.concat([*part], 0) for part in zip(*parts, strict=True))
        return Outputs(states, logits)

    def feed_answer(self, target: TargetForwards[A], start: int, stop: int) -> None:
        """Feed columns of an earlier answer, with the bits that decoding gave them."""
        x = target.embed_columns(start, stop)
        for tile in self._rows.tiles(len(x)):
            self._forward(target, x, Columns(start), tile)
            target.settle()

    def _forward(self, target: TargetForwards[A], x: A, columns: Columns, tile: Tile) -> A:
        """The hidden states [m, H] of a tile of x.

        Padding writes only columns that come after those of the rows themselves.
        """
        first, ancestry = columns.first, columns.ancestry
        rows = self._framework.integers(tile.indices)
        if ancestry is not None:
            ancestry = ancestry.of(self._framework.xp, rows, tile.stop)
        multiple, steps = self._rows.multiple, tile.stop - tile.start
        part = Columns(first + tile.start, ancestry, first, columns.depth, multiple, steps)
        return target.forward(self._framework.pick(x, rows), part)
