"""The costs of single forwards on a run's own prompts, measured before it begins."""

from collections.abc import Iterator, Sequence

from mmspec.bench.costs import branch_words, steps
from mmspec.bench.prompts import Prompt
from mmspec.bench.suite.items import Item
from mmspec.bench.suite.prediction import StepCosts
from mmspec.engine import Engine
from mmspec.errors import MmspecError
from mmspec.replay import opened

REPEATS = 8


def measure_costs(
    engine: Engine, items: Sequence[Item], gamma: int, repeats: int = REPEATS
) -> Iterator[StepCosts]:
    """Measure target and draft on one prompt for each number of images that a task begins with.

    Without a draft only the target's plain step is measured.
    """
    words = branch_words(engine)
    rows = range(1, gamma + 2) if words else (1,)
    for images, prompt in _prompts(items).items():
        target, draft = steps(engine, prompt, rows, words, repeats)
        yield StepCosts(images, opened(engine, prompt.message).length, target, draft)


def _prompts(items: Sequence[Item]) -> dict[int, Prompt]:
    """The first readable question of a task, by its number of images."""
    prompts: dict[int, Prompt] = {}
    for item in {item.task: item for item in reversed(items)}.values():
        try:
            message = item.read()[0].message
        except MmspecError:
            continue
        prompts.setdefault(len(message.pictures), Prompt(item.name, message))
    return dict(sorted(prompts.items()))
