"""The samples of a suite: conversations of one or more questions, read when needed."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import cycle
from typing import Literal

from mmspec.ground.errors import UsageError
from mmspec.prompt.conversation import Message

FollowUp = Literal["next", "story", "caption", "summary"]
"""The second question of a sample; "next" is the next sample's question (TABED)."""

FOLLOW_UPS: dict[FollowUp, str] = {
    "story": "Can you use the previous responses to write a long story for children?",
    "caption": "Provide a detailed caption for the provided image.",
    "summary": "Summarize the previous answer.",
}

Read = Callable[[], tuple[Message, ...]]
"""Reads the questions of a sample, one for each turn; raises MmspecError if it is broken."""


@dataclass(frozen=True, slots=True)
class SuiteSample:
    """One conversation, whose questions are read when they are needed."""

    name: str
    """Task and number, such as `chart/17`."""
    task: str
    read: Read


def with_follow_up(samples: Sequence[SuiteSample], follow_up: FollowUp | None) -> list[SuiteSample]:
    """The samples, each with a second question; after the last one, "next" is the first."""
    if follow_up is None:
        return list(samples)
    if follow_up == "next":
        reads = [sample.read for sample in (*samples[1:], *samples[:1])]
    else:
        question = Message("user", (FOLLOW_UPS[follow_up],))
        reads = [lambda: (question,)] * len(samples)
    return [
        replace(sample, read=partial(_two_turns, sample.read, second))
        for sample, second in zip(samples, reads, strict=True)
    ]


def asked_after(samples: Sequence[SuiteSample], firsts: Sequence[SuiteSample]) -> list[SuiteSample]:
    """The samples as second questions, each after the first one of `firsts`, which begin again."""
    return [
        replace(sample, read=partial(_two_turns, first.read, sample.read))
        for sample, first in zip(samples, cycle(firsts), strict=False)
    ]


def _two_turns(first: Read, second: Read) -> tuple[Message, ...]:
    return first()[0], second()[0]


def shard(samples: Sequence[SuiteSample], part: str) -> list[tuple[int, SuiteSample]]:
    """Part 'i/n': every n-th sample from the i-th on, with its index; raises UsageError."""
    first, slash, count = part.partition("/")
    if not (slash and first.isdigit() and count.isdigit() and 1 <= int(first) <= int(count)):
        raise UsageError(f"--shard {part!r}: give which of how many, such as 1/2")
    return list(enumerate(samples))[int(first) - 1 :: int(count)]
