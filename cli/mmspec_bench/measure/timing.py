"""Answers of several methods to the same questions, compared in pairs: medians and ranges."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import TypeVar

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Timing:
    """One answer and the time that it took."""

    tokens: list[int]
    """Token ids of the answer, without a stop token."""
    token_count: int
    """Number of tokens, including a stop token."""
    rounds: int
    """Number of target forwards after the prefill."""
    timed_tokens: int
    """Number of tokens computed in `seconds`; 0 if there was nothing to time."""
    seconds: float
    """Seconds of decoding, not counting vision, captions and prefill."""
    first_token_seconds: float
    depth: int = 0
    """Drafted tokens that could have been accepted: one per level of a tree."""
    accepted: int = 0
    peak_memory_bytes: int = 0


Pair = tuple[Timing, Timing | None]
"""An answer, and the first method's to the same question in the same turn; None without one."""


@dataclass(frozen=True, slots=True)
class Spread:
    """The median and the range of some measurements."""

    median: float
    least: float
    most: float

    @classmethod
    def of(cls, values: Sequence[float]) -> "Spread":
        """Median and range of `values`, not counting those of 0; all 0 if nothing is left."""
        numbers = [value for value in values if value] or [0.0]
        return cls(median(numbers), min(numbers), max(numbers))

    def text(self, digits: int) -> str:
        """The spread as text, with `digits` decimals: `2.10 [1.95..2.30]`, `2.10` if all agree."""
        middle = f"{self.median:.{digits}f}"
        if self.least == self.most:
            return middle
        return f"{middle} [{self.least:.{digits}f}..{self.most:.{digits}f}]"


@dataclass(frozen=True, slots=True)
class Figures:
    """One method's results over all questions and repetitions."""

    name: str
    tokens_per_second: Spread
    speed_up: Spread
    """Ratio of the method's speed to the first method's on the same question in the same turn."""
    speed_up_overall: float
    """The same ratio of all tokens divided by all seconds: long answers count more."""
    first_token_seconds: Spread
    tokens_per_round: float
    """Tokens per target forward, over all answers together."""
    acceptance_rate: float
    """Share of the drafted tokens that were accepted; 0 if it is not known."""
    identical: int
    """Number of answers equal to the first method's, token for token."""
    answers: int
    peak_memory_bytes: int


def figures(name: str, pairs: Sequence[Pair]) -> Figures:
    """What one method's timings come to, beside the first method's."""
    timings = [timing for timing, _ in pairs]
    common = [(timing, first) for timing, first in pairs if first and first.timed_tokens]
    depth = sum(timing.depth for timing in timings)
    plain = speed(*(first for _, first in common))
    return Figures(
        name,
        Spread.of([speed(timing) for timing in timings]),
        Spread.of([speed(timing) / speed(first) for timing, first in common]),
        speed(*(timing for timing, _ in common)) / plain if plain else 0.0,
        Spread.of([timing.first_token_seconds for timing in timings]),
        sum(timing.token_count for timing in timings) / sum(timing.rounds for timing in timings),
        sum(timing.accepted for timing in timings) / depth if depth else 0.0,
        sum(first is not None and timing.tokens == first.tokens for timing, first in pairs),
        len(pairs),
        max(timing.peak_memory_bytes for timing in timings),
    )


def speed(*timings: Timing) -> float:
    """Decoded tokens per second, over all answers together; 0 without any."""
    seconds = sum(timing.seconds for timing in timings)
    return sum(timing.timed_tokens for timing in timings) / seconds if seconds else 0.0


def rotate(items: Sequence[T], by: int) -> list[T]:
    """The items, starting at index `by`, wrapped around."""
    start = by % len(items)
    return [*items[start:], *items[:start]]
