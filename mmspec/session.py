"""One conversation's sequences: what they hold, what a new prompt adds, and the rounds after it."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from statistics import median
from time import perf_counter

from mmspec.conversation import Chunk
from mmspec.drafting import Branch, Drafting, StaticWeights, Views
from mmspec.loop import Lengths, decode
from mmspec.seam import Drafter, Target
from mmspec.statistics import Round

PREFILL_TOKENS = 512
"""Tokens between two points of a prefill where an interrupt may act."""


@dataclass(frozen=True, slots=True)
class Prefilled:
    """Progress of a prompt: `done` of `total` new tokens are in the target's cache."""

    done: int
    total: int


@dataclass(slots=True)
class Track:
    """The chunks that a sequence holds and its length after each.

    Images compare by content: the same text with another image is another chunk, so its keys
    are never taken for the first one's.
    """

    chunks: list[Chunk] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)

    @property
    def end(self) -> int:
        """The length of all that is held."""
        return self.ends[-1] if self.ends else 0

    def matching(self, wanted: Sequence[Chunk]) -> int:
        """How many leading chunks of `wanted` are held."""
        pairs = zip(self.chunks, wanted, strict=False)
        return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))

    def cut(self, count: int) -> None:
        """Hold the first `count` chunks only."""
        del self.chunks[count:], self.ends[count:]

    def add(self, chunk: Chunk, end: int) -> None:
        """Hold one more chunk, now wholly in the sequence."""
        self.chunks.append(chunk)
        self.ends.append(end)


@dataclass(slots=True)
class DraftSide:
    """A drafter, the views it was opened for and what it holds of the conversation."""

    drafting: Drafting
    views: Views
    drafter: Drafter
    positions: int | None
    """Positions the draft may use; None lets it run past those it was trained for."""
    carry: bool = False
    """Whether an answer starts from what earlier ones have shown of the branches."""
    track: Track = field(default_factory=Track)

    def prefill(self, chunks: Sequence[Chunk]) -> None:
        """Rewind to what `chunks` share with the past, then append the rest to every branch."""
        shared = self.track.matching(chunks)
        self.track.cut(shared)
        self.drafter.rewind(self.track.end)
        for chunk in chunks[shared:]:
            if chunk.parts:  # an answer that was interrupted at once has none
                branches = self.drafting.branches
                self.drafter.extend([self.views.segment(chunk, branch) for branch in branches])
            self.track.add(chunk, self.drafter.length)


class Session:
    """A target's sequence, and perhaps a drafter's, carried from turn to turn.

    Both are rewound to the longest common past before a prompt is added, so undo, retry and an
    image swapped under the same text need nothing else.  Any generator returned here may be
    dropped at any yield, or broken by an exception anywhere: the next prompt continues from
    what was recorded, exactly as a cold run would.
    """

    def __init__(self, target: Target, views: Views, view: Branch) -> None:
        """views, view: how the target itself is shown a chunk."""
        self.target = target
        self.draft_side: DraftSide | None = None
        self._views = views
        self._view = view
        self._track = Track()

    def cached(self, chunks: Sequence[Chunk]) -> int:
        """Tokens of `chunks` whose keys the target already holds."""
        shared = self._track.matching(chunks)
        return max(self._track.ends[shared - 1] - 1, 0) if shared else 0

    def fresh(self, chunks: Sequence[Chunk]) -> Sequence[Chunk]:
        """The chunks that are not held yet."""
        return chunks[self._track.matching(chunks) :]

    def prefill(self, chunks: Sequence[Chunk]) -> Iterator[Prefilled]:
        """Bring the target, then the drafter, to the end of `chunks`."""
        fresh = self.fresh(chunks)
        self._track.cut(len(chunks) - len(fresh))
        self.target.rewind(self._track.end)
        total = self._views.length(fresh, self._view)
        done = 0
        for chunk in fresh:
            for piece in self._views.pieces(chunk, self._view, PREFILL_TOKENS):
                self.target.extend(piece)
                done += len(piece.tokens)
                yield Prefilled(done, total)
            self._track.add(chunk, self.target.length)
        if self.draft_side:
            self.draft_side.prefill(chunks)
            yield Prefilled(done, total)

    def plain_seconds(self) -> float:
        """Seconds of a plain forward after what was said last, which stays as it is."""
        taken = []
        for _ in range(5):  # the first two may compile kernels and record them
            started = perf_counter()
            self.target.verify(None, (0.0,))
            taken.append(perf_counter() - started)
        return median(taken[2:])

    def decode(
        self, *, gamma: int | Lengths, max_tokens: int, stop: Collection[int], seed: int | None
    ) -> Iterator[Round]:
        """Answer the prompt prefilled last; what was said is held, however this ends."""
        side = self.draft_side
        starts = self.target.length, side.drafter.length if side else 0
        said: list[int] = []
        try:
            if side and not side.carry:
                side.drafter.forget()
            for round_ in decode(
                self.target,
                side.drafter if side else None,
                StaticWeights(side.drafting, side.positions) if side else None,
                gamma=gamma,
                max_tokens=max_tokens,
                stop=stop,
                seed=seed,
            ):
                said += round_.tokens
                yield round_
        finally:
            ids = tuple(takewhile(lambda token: token not in stop, said))
            answer = Chunk("answer", (ids,) if ids else ())
            self._track.add(answer, starts[0] + len(ids))
            if side:
                side.track.add(answer, starts[1] + len(ids))
