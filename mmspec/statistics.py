"""What one answer cost and how much of its draft was kept."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any, TypeVar

STAGES = ("load", "vision", "caption", "prefill", "draft", "verify", "decode", "total")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Round:
    """One pass of the loop: the tokens it produced, and what became of its draft."""

    tokens: list[int]
    """The accepted drafted tokens, then (unless the answer ended) one of the target's own."""
    drafted: int
    """Tokens of a chain, nodes of a tree."""
    accepted: int
    """How many of `tokens`, counted from the first, were drafted."""
    draft_seconds: float = 0.0
    verify_seconds: float = 0.0
    weights: tuple[float, ...] = ()
    """[R] what the branches were mixed with; empty where nothing was drafted."""
    levels: int | None = None
    """The most drafted tokens that could have been kept, one of each level of a tree; None: all."""
    seen: float = 0.0
    """The share of the target's attention that the last token it accepted, or the one before the
    draft, gave to images; 0 without any, or where nobody watched."""

    @property
    def depth(self) -> int:
        """The most drafted tokens that could have been kept."""
        return self.drafted if self.levels is None else self.levels


@dataclass(slots=True)
class Statistics:
    """Counts and seconds of one answer."""

    rounds: int = 0
    tokens: int = 0
    drafted: int = 0
    """Tokens of chains, nodes of trees."""
    depth: int = 0
    """Of these, how many could have been kept at best: one of each level of a tree."""
    accepted: int = 0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    """Prompt tokens whose keys were still in the target's cache."""
    seconds: dict[str, float] = field(default_factory=lambda: dict.fromkeys(STAGES, 0.0))
    peak_memory_bytes: int = 0

    def count(self, round_: Round) -> None:
        """Add one round."""
        self.rounds += 1
        self.tokens += len(round_.tokens)
        self.drafted += round_.drafted
        self.depth += round_.depth
        self.accepted += round_.accepted
        self.seconds["draft"] += round_.draft_seconds
        self.seconds["verify"] += round_.verify_seconds

    @contextmanager
    def timing(self, stage: str) -> Iterator[None]:
        """Add the time spent inside to `stage`."""
        started = perf_counter()
        try:
            yield
        finally:
            self.seconds[stage] += perf_counter() - started

    def timed(self, stage: str, items: Iterator[T]) -> Iterator[T]:
        """Pass `items` on, adding to `stage` the time each took to make but not to consume."""
        done = object()
        try:
            while True:
                with self.timing(stage):
                    item = next(items, done)
                if item is done:
                    return
                yield item  # type: ignore[misc]  # the sentinel has been taken out above
        finally:
            items.close()  # type: ignore[attr-defined]  # generators, so that theirs end here too

    @property
    def block_efficiency(self) -> float:
        """Tokens per target forward, the correction or bonus token included (IbED, section 4)."""
        return self.tokens / self.rounds if self.rounds else 0.0

    @property
    def draft_length(self) -> float:
        """Drafted tokens, or nodes, per round, plain rounds included."""
        return self.drafted / self.rounds if self.rounds else 0.0

    @property
    def acceptance_rate(self) -> float:
        """Accepted tokens over drafted ones; of a tree's, over its levels."""
        return self.accepted / self.depth if self.depth else 0.0

    @property
    def tokens_per_second(self) -> float:
        """Tokens over the decode stage: from the end of prefill to the last token."""
        return self.tokens / self.seconds["decode"] if self.seconds["decode"] else 0.0

    def as_dict(self) -> dict[str, Any]:
        """The fields of `generate --json`'s `stats`."""
        return {
            "rounds": self.rounds,
            "drafted": self.drafted,
            "depth": self.depth,
            "accepted": self.accepted,
            "draft_length": self.draft_length,
            "block_efficiency": self.block_efficiency,
            "acceptance_rate": self.acceptance_rate,
            "tokens_per_second": self.tokens_per_second,
            "cached_tokens": self.cached_tokens,
            "seconds": dict(self.seconds),
            "peak_memory_bytes": self.peak_memory_bytes,
        }
