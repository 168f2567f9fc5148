"""Default prompts: questions about the synthetic world, or plain text."""

from collections.abc import Callable, Sequence
from itertools import cycle, islice

from mmspec.checkpoints.config import ModelConfig
from mmspec.diagnostics.prompts import Prompt, user_prompt
from mmspec.ground.errors import UsageError
from mmspec.prompt.conversation import Message, interleave
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
        if tasks:
            raise UsageError("`tasks` are about pictures, which this target does not see")
        return text_prompts(count)
    return world_prompts(count, size=config.vision.image_size, tasks=tasks or ONE_IMAGE_TASKS)


def world_prompts(count: int, *, size: int, tasks: Sequence[str] = ONE_IMAGE_TASKS) -> list[Prompt]:
    """First questions of held-out samples, task by task; images of `size` x `size` pixels."""
    for task in tasks:
        if task not in TASKS:
            raise UsageError(f"no task {task!r}: use {', '.join(TASKS)}")
    turns = enumerate(islice(cycle(tasks), count))
    return [Prompt(f"{task}-{n}", world_questions(task, n, size)[0]) for n, task in turns]


def text_prompts(count: int) -> list[Prompt]:
    """Questions without images."""
    return [user_prompt(text) for text in islice(cycle(TEXTS), count)]


def world_questions(
    task: str, seed: int, size: int, reword: Callable[[str], str] = str
) -> tuple[Message, ...]:
    """The questions of a held-out sample; reword: changes the words of the first one."""
    scene = sample(task, seed, split="held-out", size=size)
    pictures = (picture_from(im, f"{task}/{seed}-{n}") for n, im in enumerate(scene.images))
    first, *later = (turn.question for turn in scene.turns)
    return tuple(
        interleave(text, list(islice(pictures, turn.images)))
        for text, turn in zip((reword(first), *later), scene.turns, strict=True)
    )
