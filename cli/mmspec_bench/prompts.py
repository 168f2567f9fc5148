"""Default prompts: questions about the synthetic world, or plain text."""

from collections.abc import Sequence
from itertools import cycle, islice

from mmspec.checkpoints.config import ModelConfig
from mmspec.diagnostics.prompts import Prompt, user_prompt
from mmspec.ground.errors import UsageError
from mmspec.prompt.conversation import interleaved
from mmspec.prompt.images import picture_from
from mmspec_world import TASKS, sample

ONE_IMAGE_TASKS = ("general", "detail", "chart", "text", "reasoning", "caption")
"""Tasks of the synthetic world whose first question is about one image."""
TEXTS = (
    "Explain in three sentences how a rainbow forms.",
    "Write a short story about a lighthouse keeper and a lost bird.",
    "List five fruits and say what each tastes like.",
    "What is the difference between weather and climate?",
)


def prompts_for(config: ModelConfig, count: int, tasks: Sequence[str] = ()) -> list[Prompt]:
    """Questions about pictures for a target that sees images, text for any other."""
    if config.vision is None:
        return text_prompts(count)
    return world_prompts(count, size=config.vision.image_size, tasks=tasks or ONE_IMAGE_TASKS)


def world_prompts(
    count: int, *, size: int, tasks: Sequence[str] = ONE_IMAGE_TASKS, seed: int = 0
) -> list[Prompt]:
    """First questions of held-out samples, task by task; images of `size` x `size` pixels."""
    for task in tasks:
        if task not in TASKS:
            raise UsageError(f"no task {task!r}: use {', '.join(TASKS)}")
    turns = enumerate(islice(cycle(tasks), count), start=seed)
    return [_first_question(task, number, size) for number, task in turns]


def text_prompts(count: int) -> list[Prompt]:
    """Questions without images."""
    return [user_prompt(text) for text in islice(cycle(TEXTS), count)]


def _first_question(task: str, seed: int, size: int) -> Prompt:
    scene = sample(task, seed, split="held-out", size=size)
    turn = scene.turns[0]
    names = (f"{task}-{seed}-{n}" for n in range(turn.images))
    pictures = [picture_from(image, name) for image, name in zip(scene.images, names, strict=False)]
    return Prompt(f"{task}-{seed}", interleaved(turn.question, pictures))
