"""The samples of a suite: conversations of one or more questions, read when needed."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
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


def alone(question: Message) -> Read:
    """Reads one question that is known already."""
    return lambda: (question,)


def with_follow_up(samples: Sequence[SuiteSample], follow_up: FollowUp | None) -> list[SuiteSample]:
    """The samples, each with a second question; after the last one, "next" is the first."""
    if follow_up is None:
        return list(samples)
    if follow_up == "next":
        reads = [sample.read for sample in (*samples[1:], *samples[:1])]
    else:
        reads = [alone(Message("user", (FOLLOW_UPS[follow_up],)))] * len(samples)
    firsts = [sample.read for sample in samples]
    return list(map(_two_turns, samples, firsts, reads))


def asked_after(samples: Sequence[SuiteSample], firsts: Sequence[SuiteSample]) -> list[SuiteSample]:
    """The samples as second questions, each after the first one of `firsts`, which begin again."""
    reads = [sample.read for sample in samples]
    return list(map(_two_turns, samples, cycle(first.read for first in firsts), reads))


def _two_turns(sample: SuiteSample, first: Read, second: Read) -> SuiteSample:
    return replace(sample, read=lambda: (first()[0], second()[0]))


def shard(samples: Sequence[SuiteSample], part: str) -> Sequence[SuiteSample]:
    """Part 'i/n': every n-th sample from the i-th on; raises UsageError."""
    first, _, count = part.partition("/")
    if not (first.isdecimal() and count.isdecimal() and 1 <= int(first) <= int(count)):
        raise UsageError(f"--shard {part!r}: give which of how many, such as 1/2")
    return samples[int(first) - 1 :: int(count)]
