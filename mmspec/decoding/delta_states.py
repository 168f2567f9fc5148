"""What a sequence holds of its Gated DeltaNet layers, and how it goes back to an earlier column.

A state is overwritten by every row, so that it cannot be rewound as keys and values are. A layer
keeps the state before the latest rows, which may be drafted ones, and what these rows change; from
there the state at any of their columns is computed again, in the same operations. Further back it
continues from the state at a border of turns, and the columns from there on are fed again.

Shape letters: m rows, W columns that the convolution reads, C its channels.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Generic, NamedTuple, TypeVar

from mmspec.decoding.delta_rule import Changes
from mmspec.ground.arrays import A

MOST_BORDERS = 4
"""The most borders between turns whose states are kept."""

C = TypeVar("C")
"""What a layer with attention writes and sees."""

Advance = Callable[..., A]
"""`delta_rule.advance` of a state and a row's changes."""


class Snapshot(NamedTuple, Generic[A]):
    """A layer after the columns before `column`."""

    column: int
    state: A
    window: A
    """[W - 1, C] the convolution's latest inputs."""


class ForwardRows(NamedTuple, Generic[A]):
    """The rows of one forward, computed one after another."""

    inputs: A
    """[W - 1 + m, C] the convolution's inputs, those of the columns before the rows first."""
    changes: Changes
    steps: int
    """The number of rows before padding."""
    advance: Advance[A]
    """What took the state over each row; compiled operations may round in another way."""


class Trace(NamedTuple, Generic[A]):
    """A layer's latest rows, and the layer before and after them; always replaced as a whole."""

    base: Snapshot[A]
    rows: tuple[ForwardRows[A], ...]
    """The rows after `base`, by forward."""
    last: Snapshot[A]
    """The layer after these rows."""


class DeltaMemory(Generic[A]):
    """One layer of one sequence."""

    def __init__(self, empty: Snapshot[A]) -> None:
        self._trace = Trace(empty, (), empty)
        self.steps: int | None = 0
        """As `DeltaStates.steps`."""

    @property
    def last(self) -> Snapshot[A]:
        """The layer after all rows so far."""
        return self._trace.last

    def restart(self, snapshot: Snapshot[A]) -> None:
        """Continue from a snapshot, before which nothing can be reached."""
        self._trace = Trace(snapshot, (), snapshot)

    def follow(self, rows: ForwardRows[A], last: Snapshot[A]) -> None:
        """Record rows after those so far; last: the layer after them."""
        self._trace = Trace(self._trace.base, (*self._trace.rows, rows), last)

    def reaches(self, column: int) -> bool:
        """True if the state at `column` can be computed."""
        return self._trace.base.column <= column <= self.last.column

    def go_back(self, column: int) -> None:
        """Continue from `column`, which is reached."""
        self.restart(self.last if column == self.last.column else self._replay(column))

    def _replay(self, column: int) -> Snapshot[A]:
        """The layer at `column`, computed again from the base."""
        (start, state, window), forwards, _ = self._trace
        for inputs, changes, steps, advance in forwards:
            if start == column:
                break
            count = min(steps, column - start)
            for row in range(count):
                state = advance(state, *changes.at(row))
            start, window = start + count, inputs[count : count + len(window)]
        return Snapshot(start, state, window)


class DeltaStates(Generic[A]):
    """All Gated DeltaNet layers of one sequence.

    `steps`: how many rows the next forward computes one by one, before padding; None: all of
    them, 0: none, but all in chunks, as a prompt's.
    """

    def __init__(self, layers: Sequence[int], empty: Snapshot[A]) -> None:
        self.steps: int | None = 0
        self._empty = [empty] * len(layers)
        self._memories = {layer: DeltaMemory(empty) for layer in layers}
        self._borders: list[list[Snapshot[A]]] = []
        self._decodes = False

    def layers_with(self, caches: Iterable[C], column: int) -> list[C | DeltaMemory[A]]:
        """All layers for a forward from `column` on; caches: those of the layers with attention."""
        if any(memory.last.column != column for memory in self._memories.values()):
            raise ValueError(f"recurrent layers are not at column {column}: resume there first")
        layers: list[C | DeltaMemory[A]] = list(caches)
        for layer, memory in self._memories.items():
            memory.steps = self.steps
            layers.insert(layer, memory)
        return layers

    def resume(self, column: int) -> int:
        """Go back to `column` or, if that is lost, to the nearest border before it.

        Returns the column reached, from which the sequence must be fed again. What is after
        `column` is forgotten.
        """
        memories = self._memories.values()
        self._borders = [border for border in self._borders if border[0].column <= column]
        if all(memory.reaches(column) for memory in memories):
            for memory in memories:
                memory.go_back(column)
            return column
        nearest = self._borders[-1] if self._borders else self._empty
        for memory, snapshot in zip(memories, nearest, strict=True):
            memory.restart(snapshot)
        return nearest[0].column

    def mark(self, *, decodes: bool) -> None:
        """Keep the present states if decoding begins or ends here: a border of turns."""
        present = [memory.last for memory in self._memories.values()]
        if decodes != self._decodes and present[0].column:
            borders = (b for b in self._borders if b[0].column != present[0].column)
            self._borders = [*borders, present][-MOST_BORDERS:]
        self._decodes = decodes

    def settle(self) -> list[A]:
        """Forget the latest rows, which stay; returns the arrays of the states."""
        for memory in self._memories.values():
            memory.restart(memory.last)
        return self.latest()

    def latest(self) -> list[A]:
        """The arrays of the latest states."""
        return [part for memory in self._memories.values() for part in memory.last[1:]]
