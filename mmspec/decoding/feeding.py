"""How a target feeds columns: in one forward, like a prompt, or with exact numbers of rows.

Shape letters: n tokens drafted or columns, m rows of one forward, V vocabulary, H width.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Generic, NamedTuple

from mmspec.decoding.block_attention import BLOCK, Places, chain_places, tree_places, whole_blocks
from mmspec.decoding.contents import Projection, Row, chunks
from mmspec.decoding.draft import Ancestry
from mmspec.decoding.exact_rows import ExactRows, Tile
from mmspec.decoding.framework import Framework
from mmspec.decoding.language import Language, embed_row
from mmspec.decoding.sampling import Sampling
from mmspec.decoding.stored_states import LayerCaches, StoredStates
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


class Run(NamedTuple):
    """Columns that were fed in one way, up to the next run."""

    start: int
    is_answer: bool
    """True if they were decoded, or fed as an earlier answer."""


class Feeding(Generic[A]):
    """Feeds the tokens that a target decodes in one forward, and earlier answers like prompts."""

    def feed(self, target: "CachedSequence[A]", x: A, columns: Columns) -> tuple[A, A]:
        """Feed the last token and a draft, x [n + 1, H].

        Returns the hidden states [n + 1, H] and the logits [n + 1, V] of the tokens after them.
        """
        states = target.feed_rows(x, columns)
        return states, target.project(states)

    def feed_answer(self, target: "CachedSequence[A]", start: int, stop: int) -> None:
        """Feed columns of an earlier answer."""
        target.prefill(start, stop)


class ExactFeeding(Feeding[A]):
    """Feeds in forwards of exact numbers of rows, earlier answers too: they get the same bits."""

    def __init__(self, framework: Framework[A], rows: ExactRows) -> None:
        self._framework, self._rows = framework, rows

    def feed(self, target: "CachedSequence[A]", x: A, columns: Columns) -> tuple[A, A]:
        """As `Feeding.feed`."""
        parts: list[tuple[A, A]] = []
        for tile in self._rows.tiles(len(x)):
            if parts:  # MLX would copy each layer that an earlier tile still has to read
                self._framework.settle(parts[-1][0])
            states, count = self._feed_tile(target, x, columns, tile), tile.stop - tile.start
            parts.append((states[:count], target.project(states)[:count]))
        if len(parts) == 1:
            return parts[0]
        states, logits = (self._framework.concat([*part], 0) for part in zip(*parts, strict=True))
        return states, logits

    def feed_answer(self, target: "CachedSequence[A]", start: int, stop: int) -> None:
        """As `Feeding.feed_answer`."""
        if start < stop:
            x = target.embed_columns(start, stop)
            for tile in self._rows.tiles(len(x)):
                self._feed_tile(target, x, Columns(start), tile)
                target.settle()

    def _feed_tile(self, target: "CachedSequence[A]", x: A, columns: Columns, tile: Tile) -> A:
        """The hidden states [m, H] of a tile of x.

        Padding writes only columns that come after those of the rows themselves.
        """
        ancestry, first = columns.ancestry, columns.first
        rows = self._framework.integers(tile.indices)
        if ancestry is not None:
            ancestry = ancestry.of(self._framework.xp, rows, tile.stop)
        multiple, steps = self._rows.multiple, tile.stop - tile.start
        part = Columns(first + tile.start, ancestry, first, columns.depth, multiple, steps)
        return target.feed_rows(self._framework.pick(x, rows), part)


class CachedSequence(ABC, Generic[A]):
    """A target's row and cache, and what is stored of its columns for a head."""

    def __init__(
        self,
        language: Language[A],
        place: Projection[A],
        sampling: Sampling,
        exact: ExactRows | None,
        cache: LayerCaches[A] | None = None,
    ) -> None:
        """place: returns the rows [N, W] of an image.  cache: empty; a new one if None."""
        framework = self._framework = language.framework
        self._language, self._place = language, place
        self._feeding = Feeding[A]() if exact is None else ExactFeeding(framework, exact)
        self._sampler = framework.sampler(sampling)
        self._cache = language.new_cache(rows=1) if cache is None else cache
        self._row: Row[A] = Row()
        self._store: StoredStates[A] | None = None
        self._captured_layers: tuple[int, ...] = ()
        self._runs: list[Run] = []

    def embed(self, ids: A) -> A:
        """Embeddings [n, H] of drafted ids [n]; starts computing them."""
        return self._language.embed(ids)

    def project(self, states: A) -> A:
        """Logits [n, V] of hidden states [n, H]."""
        return self._language.project(states)

    def feed_rows(self, x: A, columns: Columns) -> A:
        """Feed x [m, H] to columns; returns the hidden states [m, H], after storing them."""
        if recurrent := self._cache.states:
            recurrent.steps = columns.steps
        outputs: Any = self._forward(x, columns)
        store = self._store
        if store and store.layer_outputs:
            width = self._language.config.hidden_size
            store.layer_outputs.write(columns.first, outputs[:, width:])
            # A copy: the norm computes the bits of it that it does without other layers' outputs.
            outputs = self._framework.concat([outputs[:, :width]], -1)
        states = self._language.states(outputs)
        if store:
            store.states.write(columns.first, states)
        return states

    def _resume(self, run: Run, *, decodes: bool) -> None:
        """Begin a run, with recurrent layers as they were at its first column."""
        earlier = [past for past in self._runs if past.start < run.start]
        goes_on = run.is_answer and earlier and earlier[-1].is_answer
        self._runs = earlier if goes_on else [*earlier, run]
        if states := self._cache.states:
            if (column := states.resume(run.start)) < run.start:
                self._feed_again(column, run.start)
            states.mark(decodes=decodes)

    def _feed_again(self, start: int, stop: int) -> None:
        """Feed columns as they were fed before."""
        if states := self._cache.states:
            states.resume(start)
        ends = [*(run.start for run in self._runs[1:]), stop]
        for run, end in zip(self._runs, ends, strict=False):
            self._feed_run(Run(max(run.start, start), run.is_answer), min(end, stop))

    def _feed_run(self, run: Run, stop: int) -> None:
        """Feed a run's columns before `stop`, if there are any."""
        if run.is_answer:
            self._feeding.feed_answer(self, run.start, stop)
        else:
            self.prefill(run.start, stop)

    def prefill(self, start: int, stop: int) -> None:
        """Feed columns as those of a prompt."""
        for low, high in chunks(start, stop):
            self.feed_rows(self.embed_columns(low, high), Columns(low))
            self.settle()

    def settle(self) -> None:
        """Wait until all writes are computed, in a framework that computes lazily."""
        self._cache.settle()
        self._settle_states()

    def _settle_states(self) -> None:
        """Wait for what no logits need; else only this thread could compute it (MLX)."""
        arrays = [rows.array for rows in self._store.all()] if self._store else []
        if states := self._cache.states:
            arrays += states.latest()
        if arrays:
            self._framework.settle(*arrays)

    def embed_columns(self, start: int, stop: int) -> A:
        """Embeddings [n, H] of columns, after storing them for a head."""
        return self._store_embeddings(embed_row(self._language, self._row, start, stop), start)

    def _store_embeddings(self, x: A, start: int) -> A:
        """Store x for a head, because feeding may overwrite it; returns x itself."""
        if self._store:
            self._store.embeddings.write(start, x)
        return x

    @abstractmethod
    def _forward(self, x: A, columns: Columns) -> A:
        """Feed x [m, H]; returns the last layer's output [m, H].

        The outputs of the captured layers are beside it, [m, (1 + c) H]. Where attention is by
        blocks, every column up to the end of a block has finite content.
        """
