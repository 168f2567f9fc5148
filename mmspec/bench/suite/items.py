"""What a suite asks: conversations of one or more questions, read when their turn comes."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from mmspec.bench.grounding import blanked
from mmspec.bench.world import Fact
from mmspec.conversation import Message
from mmspec.errors import UsageError
from mmspec.images import Picture

Second = Literal["next", "story", "caption", "summary"]

SECOND_TURNS: dict[Second, str] = {
    "story": "Can you use the previous responses to write a long story for children?",
    "caption": "Provide a detailed caption for the provided image.",
    "summary": "Summarize the previous answer.",
}
"""What is asked after the first answer; 'next' asks the next sample's question (TABED)."""


@dataclass(frozen=True, slots=True)
class Question:
    """One turn: a message, and the facts its answer must state where the truth is known."""

    message: Message
    facts: tuple[Fact, ...] = ()

    @property
    def blank(self) -> "Question":
        """The same with a grey picture of the same size in place of each."""
        parts = (
            blanked(part) if isinstance(part, Picture) else part for part in self.message.parts
        )
        return Question(replace(self.message, parts=tuple(parts)), self.facts)


@dataclass(frozen=True, slots=True)
class Item:
    """One sample.  `read` makes its questions, and raises an MmspecError where it is broken."""

    name: str
    task: str
    read: Callable[[], tuple[Question, ...]]


def with_second_turn(items: Sequence[Item], second: Second | None) -> list[Item]:
    """Let a question follow each first one, as TABED does; after the last item comes the first."""
    if second is None:
        return list(items)
    if second == "next":
        return [_followed(item, after) for item, after in zip(items, _rotated(items), strict=True)]
    question = Question(Message("user", (SECOND_TURNS[second],)))
    return [_then(item, lambda: question) for item in items]


def _rotated(items: Sequence[Item]) -> list[Item]:
    return [*items[1:], *items[:1]]


def _followed(item: Item, after: Item) -> Item:
    return _then(item, lambda: after.read()[0])


def _then(item: Item, question: Callable[[], Question]) -> Item:
    return replace(item, read=lambda: (item.read()[0], question()))


def first_turns(items: Sequence[Item], turns: int | None) -> list[Item]:
    """The items cut to so many turns; None leaves all."""
    if turns is None:
        return list(items)
    return [_cut(item, turns) for item in items]


def _cut(item: Item, turns: int) -> Item:
    return replace(item, read=lambda: item.read()[:turns])


def shard(items: Sequence[Item], word: str) -> list[tuple[int, Item]]:
    """Every n-th item from the i-th on for 'i/n', each with its place among all.

    Raises UsageError for another word.
    """
    part, slash, count = word.partition("/")
    if not (slash and part.isdigit() and count.isdigit() and 1 <= int(part) <= int(count)):
        raise UsageError(f"--shard {word!r}: give which of how many, such as 1/2")
    return list(enumerate(items))[int(part) - 1 :: int(count)]
