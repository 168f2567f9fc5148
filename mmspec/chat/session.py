"""Prefills and decodes one conversation; knows which parts of the prompt each cache holds."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import takewhile

from mmspec.decoding.loop import DraftLengthPolicy, decode
from mmspec.decoding.statistics import Round
from mmspec.drafters.views import Branch, Drafting, StaticWeights, Views
from mmspec.prompt.conversation import Chunk
from mmspec.seam import Drafter, Target

PREFILL_TOKENS = 512
"""Tokens per piece of a prefill; an interrupt takes effect between two pieces."""


@dataclass(frozen=True, slots=True)
class Prefilled:
    """Progress of a prompt: `done` of `total` new tokens have been fed to the target."""

    done: int
    total: int


@dataclass(slots=True)
class Track:
    """A sequence with the chunks of a prompt that it holds, and its length after each of them.

    Images compare by content: the same text with another image is another chunk.
    """

    sequence: Target | Drafter
    chunks: list[Chunk] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)

    def matching(self, wanted: Sequence[Chunk]) -> int:
        """Number of leading chunks of `wanted` that the sequence already holds."""
        pairs = zip(self.chunks, wanted, strict=False)
        return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))

    def rewind(self, wanted: Sequence[Chunk]) -> Sequence[Chunk]:
        """Rewind to the longest common prefix with `wanted`; returns the chunks that follow it."""
        shared = self.matching(wanted)
        del self.chunks[shared:], self.ends[shared:]
        self.sequence.rewind(self.ends[-1] if self.ends else 0)
        return wanted[shared:]

    def add(self, chunk: Chunk, end: int) -> None:
        """Record a chunk that is now wholly in the sequence, whose length is `end`."""
        self.chunks.append(chunk)
        self.ends.append(end)


@dataclass(slots=True)
class OpenDrafter:
    """An open drafter with its drafting and the chunks in its sequence."""

    drafting: Drafting
    views: Views
    drafter: Drafter
    positions: int | None
    """The most positions the draft may use; None if it may exceed those it was trained for."""
    carry: bool = False
    """True if adaptive weights carry over from one answer to the next."""
    track: Track = field(init=False)

    def __post_init__(self) -> None:
        self.track = Track(self.drafter)

    def prefill(self, chunks: Sequence[Chunk]) -> None:
        """Rewind to the longest common prefix with `chunks`, then append the rest."""
        for chunk in self.track.rewind(chunks):
            if chunk.parts:  # an answer that was interrupted at once has none
                branches = self.drafting.branches
                self.drafter.extend([self.views.segment(chunk, branch) for branch in branches])
            self.track.add(chunk, self.drafter.length)


class Session:
    """The sequences of a target and, optionally, a drafter over all turns of a conversation.

    Both are rewound to the longest common prefix before a prompt is added, so undo, retry and an
    image replaced under the same text need no special case.  Any generator returned here may be
    dropped at any yield or broken by an exception: the next prompt continues exactly as a cold run
    would.
    """

    def __init__(self, target: Target, views: Views, view: Branch) -> None:
        """views: converts chunks of a prompt to segments.  view: the view that the target sees."""
        self.target = target
        self._views = views
        self._view = view
        self._track = Track(target)
        self._drafter: OpenDrafter | None = None

    def cached(self, chunks: Sequence[Chunk]) -> int:
        """Number of tokens of `chunks` whose keys are in the target's cache."""
        shared = self._track.matching(chunks)
        return max(self._track.ends[shared - 1] - 1, 0) if shared else 0

    def fresh(self, chunks: Sequence[Chunk]) -> Sequence[Chunk]:
        """The chunks whose keys are not in the target's cache."""
        return chunks[self._track.matching(chunks) :]

    def restart(self) -> None:
        """Empty the target's sequence, so that the next prompt is fed from its start."""
        self._track.rewind(())

    def prefill(
        self, chunks: Sequence[Chunk], drafter: OpenDrafter | None = None
    ) -> Iterator[Prefilled]:
        """Append `chunks` to the target, then to the drafter, and yield the progress."""
        self._drafter = drafter
        fresh = self._track.rewind(chunks)
        total = self._views.length(fresh, self._view)
        done = 0
        for chunk in fresh:
            for piece in self._views.pieces(chunk, self._view, PREFILL_TOKENS):
                self.target.extend(piece)
                done += len(piece)
                yield Prefilled(done, total)
            self._track.add(chunk, self.target.length)
        if drafter:
            drafter.prefill(chunks)
            yield Prefilled(done, total)

    def decode(
        self,
        draft_length: DraftLengthPolicy,
        *,
        max_tokens: int,
        stop: Collection[int],
        seed: int,
    ) -> Iterator[Round]:
        """Decode the answer; the caches stay valid if the caller stops early."""
        opened = self._drafter
        starts = self.target.length, opened.drafter.length if opened else 0
        token_ids: list[int] = []
        try:
            if opened and not opened.carry:
                opened.drafter.forget()
            for round_ in decode(
                self.target,
                opened.drafter if opened else None,
                StaticWeights(opened.drafting, opened.positions) if opened else None,
                draft_length=draft_length,
                max_tokens=max_tokens,
                stop=stop,
                seed=seed,
            ):
                token_ids += round_.tokens
                yield round_
        finally:
            ids = tuple(takewhile(lambda token: token not in stop, token_ids))
            answer = Chunk("answer", (ids,) if ids else ())
            self._track.add(answer, starts[0] + len(ids))
            if opened:
                opened.track.add(answer, starts[1] + len(ids))
