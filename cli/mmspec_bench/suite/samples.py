"""The samples of a suite: conversations of one or more questions, read when needed."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import cycle
from typing import Literal

from PIL import Image

from mmspec.ground.errors import UsageError
from mmspec.prompt.conversation import Message
from mmspec.prompt.images import Picture, picture_from
from mmspec_world import Fact

FollowUp = Literal["next", "story", "caption", "summary"]
"""The second question of a sample; "next" is the next sample's question (TABED)."""

FOLLOW_UPS: dict[FollowUp, str] = {
    "story": "Can you use the previous responses to write a long story for children?",
    "caption": "Provide a detailed caption for the provided image.",
    "summary": "Summarize the previous answer.",
}


@dataclass(frozen=True, slots=True)
class Question:
    """One turn: a message, and the facts that its answer must state if they are known."""

    message: Message
    facts: tuple[Fact, ...] = ()

    @property
    def blank(self) -> "Question":
        """The same question with grey pictures of the same sizes."""
        parts = tuple(
            blanked(part) if isinstance(part, Picture) else part for part in self.message.parts
        )
        return Question(replace(self.message, parts=parts), self.facts)


@dataclass(frozen=True, slots=True)
class SuiteSample:
    """One conversation; `read` returns its questions and raises MmspecError if it is broken."""

    name: str
    """Task and number, such as `chart/17`."""
    task: str
    read: Callable[[], tuple[Question, ...]]


GREY = (128, 128, 128)
"""Colour (red, green, blue) of blank pictures."""


def blanked(picture: Picture) -> Picture:
    """A mid-grey picture of the same size."""
    return picture_from(Image.new("RGB", picture.image.size, GREY), picture.name)


def with_follow_up(samples: Sequence[SuiteSample], follow_up: FollowUp | None) -> list[SuiteSample]:
    """The samples, each with a second question; after the last one, "next" is the first."""
    if follow_up is None:
        return list(samples)
    if follow_up == "next":
        following = [*samples[1:], *samples[:1]]
        return [_extended(*pair) for pair in zip(samples, following, strict=True)]
    question = Question(Message("user", (FOLLOW_UPS[follow_up],)))
    fixed = SuiteSample("", "", lambda: (question,))
    return [_extended(sample, fixed) for sample in samples]


def asked_after(samples: Sequence[SuiteSample], firsts: Sequence[SuiteSample]) -> list[SuiteSample]:
    """The samples as second questions, each after the first one of `firsts`, which begin again."""
    return [
        replace(sample, read=partial(_second_after, sample, first))
        for sample, first in zip(samples, cycle(firsts), strict=False)
    ]


def _second_after(sample: SuiteSample, first: SuiteSample) -> tuple[Question, ...]:
    return first.read()[0], sample.read()[0]


def _extended(sample: SuiteSample, following: SuiteSample) -> SuiteSample:
    return replace(sample, read=lambda: (sample.read()[0], following.read()[0]))


def first_turns(sample: SuiteSample, turns: int | None) -> SuiteSample:
    """The sample with its first `turns` turns; None keeps all."""
    return replace(sample, read=lambda: sample.read()[:turns])


def shard(samples: Sequence[SuiteSample], part: str) -> list[tuple[int, SuiteSample]]:
    """Part 'i/n' of the samples: every n-th from the i-th on, with its index among all.

    Raises UsageError for a malformed part.
    """
    first, slash, count = part.partition("/")
    if not (slash and first.isdigit() and count.isdigit() and 1 <= int(first) <= int(count)):
        raise UsageError(f"--shard {part!r}: give which of how many, such as 1/2")
    return list(enumerate(samples))[int(first) - 1 :: int(count)]
