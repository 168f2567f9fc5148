"""The suite without downloads: held-out samples of the synthetic world."""

from collections.abc import Mapping
from functools import partial
from itertools import islice

from mmspec.prompt.conversation import Message, interleaved
from mmspec.prompt.images import picture_from
from mmspec_bench.suite.samples import FollowUp, SuiteSample, with_follow_up
from mmspec_world import sample
from mmspec_world.prompts import EDIT, REASONED, SPOT, VIDEO

SAMPLES = 100
"""Number of samples of each task by default, as many as in the papers' datasets."""

OFFLINE_TASKS: dict[str, FollowUp | None] = {
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
"""Tasks that imitate the papers' datasets, each with the kind of its second question."""

TEXT_TASKS: dict[str, FollowUp | None] = {"told": None}
"""Tasks without images; rows and published tables use these names."""

CLIP_TASKS: dict[str, FollowUp | None] = {"clip8": None, "clip16": None}
"""Tasks of moving scenes in eight and sixteen frames, for a target that was trained on them."""

_PAPER_PROMPTS = {"spot": SPOT[0], "edit": EDIT[0], "video": VIDEO[0]}
"""The papers' prompts for tasks for which the world has several."""
_REASONED = ("chart", "text", "general", "hallucination")
"""Tasks whose questions follow the papers' request for reasoning."""


def offline(
    size: int,
    *,
    limit: int | None = None,
    seed: int = 0,
    tasks: Mapping[str, FollowUp | None] = OFFLINE_TASKS,
) -> list[SuiteSample]:
    """Held-out samples of every task from `seed` on; images of `size` x `size` pixels."""
    numbers = range(seed, seed + (limit or SAMPLES))
    samples: list[SuiteSample] = []
    for task, follow_up in tasks.items():
        reads = ((n, partial(_questions, task, n, size)) for n in numbers)
        own = [SuiteSample(f"{task}/{n}", task, read) for n, read in reads]
        samples += with_follow_up(own, follow_up)
    return samples


def _questions(task: str, seed: int, size: int) -> tuple[Message, ...]:
    """The questions of a held-out sample, the first one worded as in the papers."""
    source = sample(task, seed, split="held-out", size=size)
    pictures = (picture_from(im, f"{task}/{seed}-{n}") for n, im in enumerate(source.images))
    texts = [turn.question for turn in source.turns]
    texts[0] = _PAPER_PROMPTS.get(task, texts[0])
    if task in _REASONED:
        texts[0] = REASONED + texts[0].removeprefix(REASONED)
    return tuple(
        interleaved(text, list(islice(pictures, turn.images)))
        for text, turn in zip(texts, source.turns, strict=True)
    )
