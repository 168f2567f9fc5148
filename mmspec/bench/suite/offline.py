"""The suite that needs no network: one drawn task for each of the papers', never trained on."""

from collections.abc import Mapping
from functools import partial

from mmspec.bench.prompts import question
from mmspec.bench.suite.items import Item, Question, Second, with_second_turn
from mmspec.bench.world import Sample, Turn, sample
from mmspec.bench.world.tasks import EDIT, REASONED, SPOT, VIDEO
from mmspec.images import Picture, picture_from

SAMPLES = 100
"""Of each task, as the papers take of each dataset."""

OFFLINE_TASKS: dict[str, Second | None] = {
    "chart": "next",
    "text": "next",
    "general": "next",
    "hallucination": "next",
    "spot": "story",
    "edit": "story",
    "pororo": None,
    "vist": None,
    "conversation": None,
    "detail": "summary",
    "reasoning": "caption",
    "caption": None,
    "science": None,
    "video": None,
}
"""Each task with the question that follows its first answer; a conversation has its own."""

TEXT_TASKS: dict[str, Second | None] = {"told": None}
"""Without a picture: one is described in words and asked about."""

_PROMPTS = {"spot": SPOT[0], "edit": EDIT[0], "video": VIDEO[0]}
"""The papers' own, where the world asks in several ways."""
_REASONED = ("chart", "text", "general", "hallucination")


def offline(
    size: int,
    *,
    limit: int | None = None,
    seed: int = 0,
    tasks: Mapping[str, Second | None] = OFFLINE_TASKS,
) -> list[Item]:
    """Held-out samples of every task; images of `size` x `size` pixels.

    The same for the same seed in every process.
    """
    count = limit or SAMPLES
    return [item for task in tasks.items() for item in _items(*task, size, count, seed)]


def _items(task: str, second: Second | None, size: int, count: int, seed: int) -> list[Item]:
    numbers = range(seed, seed + count)
    reads = (partial(_questions, task, number, size) for number in numbers)
    items = [Item(f"{task}/{n}", task, read) for n, read in zip(numbers, reads, strict=True)]
    return with_second_turn(items, second)


def _questions(task: str, seed: int, size: int) -> tuple[Question, ...]:
    made = drawn(task, seed, size)
    pictures = iter(_pictures(made, f"{task}/{seed}"))
    return tuple(
        Question(question(turn, [next(pictures) for _ in range(turn.images)]), turn.facts)
        for turn in made.turns
    )


def drawn(task: str, seed: int, size: int) -> Sample:
    """The sample that belongs to a seed, asked as the papers ask."""
    made = sample(task, seed, split="held-out", size=size)
    first, *rest = made.turns
    asked = Turn(_asked(task, first.question), first.answer, first.facts, first.images)
    return Sample(made.task, made.images, (asked, *rest), made.key)


def _asked(task: str, text: str) -> str:
    if task in _REASONED:
        return REASONED + text.removeprefix(REASONED)
    return _PROMPTS.get(task, text)


def _pictures(made: Sample, name: str) -> list[Picture]:
    return [picture_from(image, f"{name}-{n}") for n, image in enumerate(made.images)]
