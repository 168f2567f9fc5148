"""The suite without downloads: held-out samples of the synthetic world."""

from collections.abc import Mapping
from functools import partial

from mmspec_bench.prompts import world_questions
from mmspec_bench.suite.samples import FollowUp, SuiteSample, with_follow_up
from mmspec_world.wording import prompts

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

_PAPER_PROMPTS = {"spot": "difference", "edit": "edit", "video": "video"}
"""The world's names of the prompts for tasks for which it has several, the papers' first."""
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
        worded = partial(_as_in_papers, task)
        reads = ((n, partial(world_questions, task, n, size, worded)) for n in numbers)
        own = [SuiteSample(f"{task}/{n}", task, read) for n, read in reads]
        samples += with_follow_up(own, follow_up)
    return samples


def _as_in_papers(task: str, question: str) -> str:
    if task in _REASONED:
        request = prompts("reasoned")[0]
        return request + question.removeprefix(request)
    return prompts(_PAPER_PROMPTS[task])[0] if task in _PAPER_PROMPTS else question
