"""The samples of a suite: conversations of one or more questions, read when needed."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
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
        seconds = [*samples[1:], *samples[:1]]
    else:
        question = alone(Message("user", (FOLLOW_UPS[follow_up],)))
        seconds = [replace(sample, read=question) for sample in samples]
    return list(map(two_turns, samples, samples, seconds))


def two_turns(sample: SuiteSample, first: SuiteSample, second: SuiteSample) -> SuiteSample:
    """The sample with the first question of each of two."""
    return replace(sample, read=lambda: (first.read()[0], second.read()[0]))


def shard(samples: Sequence[SuiteSample], part: str) -> Sequence[SuiteSample]:
    """Part 'i/n': every n-th sample from the i-th on; raises UsageError."""
    first, _, count = part.partition("/")
    if not (first.isdecimal() and count.isdecimal() and 1 <= int(first) <= int(count)):
        raise UsageError(f"--shard {part!r}: give which of how many, such as 1/2")
    return samples[int(first) - 1 :: int(count)]
