"""Counts and times of rounds and of whole answers, and log-probabilities of their tokens.

Shape letters: m tokens, V vocabulary.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from time import perf_counter
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from mmspec.decoding.acceptance import FirstChoices, Verdict
from mmspec.decoding.draft import Draft, HostDraft
from mmspec.decoding.host_framework import top

STAGES = ("load", "vision", "caption", "prefill", "draft", "verify", "decode", "total")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Likelihood:
    """A token's log-probability, and the likeliest tokens with theirs, likeliest first."""

    token: int
    logprob: float
    likeliest: tuple[tuple[int, float], ...] = ()


def likelihoods(
    logits: NDArray[np.float32], tokens: Sequence[int], count: int
) -> tuple[Likelihood, ...]:
    """One entry for each of `tokens`, whose logits [m, V] are given, with `count` likeliest.

    They are the model's own, before temperature, top-k and top-p.
    """
    distances = logits.astype(np.float64) - logits.max(axis=-1, keepdims=True)
    logprobs = distances - np.log(np.exp(distances).sum(axis=-1, keepdims=True))
    rows = zip(tokens, logprobs, strict=True)
    return tuple(
        Likelihood(token, float(row[token]), _likeliest(row, count)) for token, row in rows
    )


def _likeliest(row: NDArray[np.float64], count: int) -> tuple[tuple[int, float], ...]:
    if not count:
        return ()
    logprobs, ids = top(row, count)
    return tuple(zip(ids.tolist(), logprobs.tolist(), strict=True))


@dataclass(frozen=True, slots=True)
class Round:
    """One pass of the loop: its tokens, and how much of its draft was accepted."""

    tokens: list[int]
    """The accepted drafted tokens, then the target's own; no own token after a stop token."""
    drafted: int
    """Number of drafted tokens: of a tree, all its nodes."""
    depth: int
    """Most drafted tokens that could have been accepted: all of a chain, one per tree level."""
    accepted: int
    """How many tokens at the beginning of `tokens` were drafted."""
    draft_seconds: float = 0.0
    verify_seconds: float = 0.0
    cost_seconds: float = 0.0
    """The whole round, without other programs' time on the processor and captures of graphs."""
    likelihoods: tuple[Likelihood, ...] = ()
    """One for each of `tokens`, if they were asked for."""
    first_choices: FirstChoices | None = None
    """The verdict on the tokens that a chain would have drafted; None if not known apart."""
    by_lookup: bool = False
    """Whether lookup drafted, perhaps beside another drafter."""

    @classmethod
    def of(
        cls, tokens: list[int], path: Sequence[int], draft: Draft | None, verdict: Verdict
    ) -> "Round":
        """A round that committed `path` of its draft; an accepted stop token is not on the path."""
        if draft is None:
            return cls(tokens, 0, 0, 0)
        stop = verdict.child(path, tokens[-1])
        nodes = [*path] if stop is None else [*path, stop]
        first = verdict.first_choices(nodes)
        counts = draft.size, draft.depth, len(nodes)
        by_lookup = isinstance(draft, HostDraft) and draft.by_lookup
        return cls(tokens, *counts, first_choices=first, by_lookup=by_lookup)

    def until(self, count: int | None) -> "Round":
        """The round without its tokens after the first `count`; all of it for None."""
        if count is None:
            return self
        tokens, likelihoods = self.tokens[:count], self.likelihoods[:count]
        accepted = min(self.accepted, count)
        return replace(self, tokens=tokens, accepted=accepted, likelihoods=likelihoods)


@dataclass(slots=True)
class Statistics:
    """Counts of tokens and seconds of one answer."""

    rounds: int = 0
    tokens: int = 0
    drafted: int = 0
    """Number of drafted tokens: of trees, all nodes."""
    depth: int = 0
    """The most drafted tokens that could have been accepted: of a tree, one per level."""
    accepted: int = 0
    lookup_rounds: int = 0
    """The number of rounds that lookup drafted."""
    prompt_tokens: int = 0
    cached_tokens: int = 0
    """Number of prompt tokens whose keys were already in the target's cache."""
    seconds: dict[str, float] = field(default_factory=lambda: dict.fromkeys(STAGES, 0.0))
    peak_memory_bytes: int = 0

    def count(self, round_: Round) -> None:
        """Add `round_` to the counts."""
        self.rounds += 1
        self.tokens += len(round_.tokens)
        self.drafted += round_.drafted
        self.depth += round_.depth
        self.accepted += round_.accepted
        self.lookup_rounds += round_.by_lookup
        self.seconds["draft"] += round_.draft_seconds
        self.seconds["verify"] += round_.verify_seconds

    @contextmanager
    def timing(self, stage: str) -> Iterator[None]:
        """Context manager that adds the time spent in its body to `stage`."""
        start = perf_counter()
        try:
            yield
        finally:
            self.seconds[stage] += perf_counter() - start

    def time_items(self, stage: str, items: Iterator[T]) -> Iterator[T]:
        """Yield from `items`, adding the time spent producing each item to `stage`."""
        end = object()
        try:
            while True:
                with self.timing(stage):
                    item = next(items, end)
                if item is end:
                    return
                yield item  # type: ignore[misc]  # the sentinel has been taken out above
        finally:
            items.close()  # type: ignore[attr-defined]  # generators, so that theirs end here too

    @property
    def block_efficiency(self) -> float:
        """Tokens per target forward, including the target's own token (IbED, section 4)."""
        return self.tokens / self.rounds if self.rounds else 0.0

    @property
    def draft_length(self) -> float:
        """Mean number of drafted tokens (of trees, nodes) per round; plain rounds count."""
        return self.drafted / self.rounds if self.rounds else 0.0

    @property
    def acceptance_rate(self) -> float:
        """Accepted tokens divided by `depth`: by the tokens of chains and the levels of trees."""
        return self.accepted / self.depth if self.depth else 0.0

    @property
    def tokens_per_second(self) -> float:
        """Number of tokens divided by the seconds from the end of prefill to the last token."""
        return self.tokens / self.seconds["decode"] if self.seconds["decode"] else 0.0

    def as_dict(self) -> dict[str, Any]:
        """The statistics as the object `stats` in the output of `generate --json`."""
        ratios = ("draft_length", "block_efficiency", "acceptance_rate", "tokens_per_second")
        return asdict(self) | {name: getattr(self, name) for name in ratios}
