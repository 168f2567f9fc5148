"""Prefills and decodes one conversation; knows which parts of the prompt each cache holds."""

from collections import deque
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate, takewhile
from time import perf_counter

from mmspec.decoding.acceptance import Verdict
from mmspec.decoding.contract import Drafter, Target, Verifier
from mmspec.decoding.draft import Draft, Plan
from mmspec.decoding.loop import DraftLengthPolicy, decode
from mmspec.decoding.noise import Noise
from mmspec.decoding.statistics import Likelihood, Round, likelihoods
from mmspec.drafters.views import Branch, Drafting, Views
from mmspec.ground.tokens import common_prefix
from mmspec.prompt.chunks import Chunk, pictures
from mmspec.prompt.images import Picture

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

    def prefix_length(self, prompt: Sequence[Chunk]) -> int:
        """Number of leading chunks of `prompt` that the sequence already holds."""
        return common_prefix(self.chunks, prompt)

    def rewind(self, prompt: Sequence[Chunk], beyond: int = 0) -> Sequence[Chunk]:
        """Rewind to the leading chunks that equal those of `prompt`; returns the others.

        beyond: number of tokens of the next chunk that are left in the sequence too.
        """
        count = self.prefix_length(prompt)
        del self.chunks[count:], self.ends[count:]
        self.sequence.rewind((self.ends[-1] if self.ends else 0) + beyond)
        return prompt[count:]

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
    weights: Callable[[], tuple[float, ...]] = tuple
    """Function that returns the views' weights in the latest round, or ().  Blocks."""
    room: Callable[[], int | None] = lambda: None
    """Function that returns the most tokens that the draft has positions for; None: no limit."""
    track: Track = field(init=False)

    def __post_init__(self) -> None:
        self.track = Track(self.drafter)

    def prefill(self, chunks: Sequence[Chunk]) -> None:
        """Rewind to the longest common prefix with `chunks`, then append the rest."""
        for chunk in self.track.rewind(chunks):
            if chunk.content:  # an answer that was interrupted at once has none
                branches = self.drafting.branches
                self.drafter.extend([self.views.segment(chunk, branch) for branch in branches])
            self.track.add(chunk, self.drafter.length)


class MeasuredRounds:
    """Implements `Verifier` and `DraftLengthPolicy` by a target and a policy.

    It adds to rounds what the loop does not know: times, and log-probabilities of tokens.
    """

    def __init__(
        self,
        target: Verifier,
        draft_length: DraftLengthPolicy,
        likeliest: int | None = None,
        clock: Callable[[], float] = perf_counter,
        work: Callable[[], float] | None = None,
    ) -> None:
        """likeliest: number of likeliest tokens to report with every token's log-probability; None
        reports nothing.  clock: function that returns seconds.  work: function that returns those
        which count as costs: not other programs' time on the processor, nor captures of graphs.
        """
        self._target, self._draft_length = target, draft_length
        self._likeliest, self._clock = likeliest, clock
        self._work, self._work_start = work, 0.0
        self._times: list[float] = []
        self._likelihoods: tuple[Likelihood, ...] = ()
        self._verdict = Verdict([], [], [])
        self.round = Round([], 0, 0, 0)
        """The last round, with its times and log-probabilities."""

    @property
    def length(self) -> int:
        """Number of tokens in the target's sequence."""
        return self._target.length

    def choose(self, max_gamma: int, context: int) -> Plan:
        """The draft length's plan; a round begins."""
        self._times = [self._clock()]
        self._work_start = self._work() if self._work else 0.0
        return self._draft_length.choose(max_gamma, context)

    def verify(self, draft: Draft | None, noise: Noise) -> Verdict:
        """The target's verdict.  Blocks."""
        self._times.append(self._clock())
        self._verdict = self._target.verify(draft, noise)
        self._times.append(self._clock())
        return self._verdict

    def commit(self, path: Sequence[int], token: int) -> None:
        """Commit to the target, after reading the log-probabilities of the round's tokens."""
        if self._likeliest is not None and (logits := self._verdict.logits):
            rows = logits.to_host(logits.array)[[0, *(node + 1 for node in path)]]
            tokens = [*self._verdict.along(path), token]
            self._likelihoods = likelihoods(rows, tokens, self._likeliest)
        self._target.commit(path, token)

    def observe(self, round_: Round) -> None:
        """Complete the round, and let the draft length observe it."""
        start, draft_end, verify_end = self._times
        cost = self._clock() - start
        if self._work:  # threads count several times
            cost = min(cost, self._work() - self._work_start)
        self.round = replace(
            round_,
            draft_seconds=draft_end - start,
            verify_seconds=verify_end - draft_end,
            cost_seconds=cost,
            likelihoods=self._likelihoods,
        )
        self._draft_length.observe(self.round)


class Session:
    """The sequences of a target and, optionally, a drafter over all turns of a conversation.

    Both are rewound to the longest common prefix before a prompt is added, so undo, retry and an
    image replaced under the same text need no special case.  Any generator returned here may be
    dropped at any yield or broken by an exception: the next prompt continues exactly as a cold run
    would.
    """

    def __init__(
        self, target: Target, views: Views, view: Branch, *, whole_chunks: bool = False
    ) -> None:
        """views: converts chunks of a prompt to segments.  view: the view that the target sees.

        whole_chunks: feed each chunk by itself, also one that the target holds in part, because the
        bits of a prompt depend on how it is cut.
        """
        self.target = target
        self._views = views
        self._view = view
        self._whole_chunks = whole_chunks
        self._track = Track(target)
        self._drafter: OpenDrafter | None = None

    def cached_tokens(self, chunks: Sequence[Chunk]) -> int:
        """Number of tokens of `chunks` whose keys are in the target's cache."""
        prefix, _ = self._split(chunks)
        return max(self._views.length(prefix, self._view) - 1, 0)

    def _split(self, prompt: Sequence[Chunk]) -> tuple[list[Chunk], list[Chunk]]:
        """What the target holds of `prompt`, and the rest; a chunk held in part is in both."""
        count = self._track.prefix_length(prompt)
        prefix, suffix = list(prompt[:count]), list(prompt[count:])
        if suffix and count < len(self._track.chunks) and not self._whole_chunks:
            common, suffix[0] = suffix[0].split(self._track.chunks[count])
            prefix.append(common)
        return prefix, suffix

    @property
    def held_tokens(self) -> int:
        """Number of tokens in the target's sequence, up to the last whole chunk."""
        return self._track.ends[-1] if self._track.ends else 0

    @property
    def pictures(self) -> set[Picture]:
        """The images in the target's sequence."""
        return set(pictures(self._track.chunks))

    def new_chunks(self, chunks: Sequence[Chunk]) -> Sequence[Chunk]:
        """The chunks whose keys are not all in the target's cache."""
        return chunks[self._track.prefix_length(chunks) :]

    def restart(self) -> None:
        """Empty the target's sequence, so that the next prompt is fed from its start."""
        self._track.rewind(())

    def prefill(
        self, chunks: Sequence[Chunk], drafter: OpenDrafter | None = None
    ) -> Iterator[Prefilled]:
        """Append `chunks` to the target, then to the drafter, and yield the progress."""
        self._drafter = drafter
        prefix, suffix = self._split(chunks)
        whole = self._track.prefix_length(chunks)
        remainder = self._track.rewind(chunks, self._views.length(prefix[whole:], self._view))
        start, total = self.target.length, self._views.length(suffix, self._view)
        lengths = (self._views.length([chunk], self._view) for chunk in suffix)
        _, *ends = accumulate(lengths, initial=start)
        queue = deque(zip(remainder, ends, strict=True))
        joined = Chunk(tuple(entry for chunk in suffix for entry in chunk.content))
        for run in suffix if self._whole_chunks else [joined]:
            for piece in self._views.pieces(run, self._view, PREFILL_TOKENS):
                self.target.extend(piece)
                self._add_held(queue)
                yield Prefilled(self.target.length - start, total)
        self._add_held(queue)  # chunks without content
        if drafter:
            drafter.prefill(chunks)
            yield Prefilled(total, total)

    def _add_held(self, queue: deque[tuple[Chunk, int]]) -> None:
        """Record those chunks that now are in the sequence with their ends."""
        while queue and queue[0][1] <= self.target.length:
            self._track.add(*queue.popleft())

    def decode(
        self,
        draft_length: DraftLengthPolicy,
        *,
        max_tokens: int,
        stop: Collection[int],
        seed: int,
        likeliest: int | None = None,
        work: Callable[[], float] | None = None,
        verifier: Verifier | None = None,
    ) -> Iterator[Round]:
        """Decode the answer; the caches stay valid if the caller stops early.

        work: function that returns the seconds that count as costs of rounds.
        verifier: the target within the constraint of this answer.
        """
        open_drafter = self._drafter
        rounds = MeasuredRounds(verifier or self.target, draft_length, likeliest, work=work)
        drafter = open_drafter.drafter if open_drafter else None
        starts = self.target.length, drafter.length if drafter else 0
        token_ids: list[int] = []
        try:
            for _ in decode(rounds, drafter, rounds, max_tokens=max_tokens, stop=stop, seed=seed):
                token_ids += rounds.round.tokens
                yield rounds.round
        finally:
            ids = tuple(takewhile(lambda token: token not in stop, token_ids))
            answer = Chunk(ids, is_answer=True)
            self._track.add(answer, starts[0] + len(ids))
            if open_drafter:
                open_drafter.track.add(answer, starts[1] + len(ids))
