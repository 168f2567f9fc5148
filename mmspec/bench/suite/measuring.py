"""The costs of single forwards on a run's own prompts, measured before it begins."""

from collections.abc import Iterator, Sequence

from mmspec.bench.costs import Passes, branch_words, middle_mean, steps, tree_costs
from mmspec.bench.prompts import Prompt
from mmspec.bench.refit import refit_cost
from mmspec.bench.suite.arms import MethodArm
from mmspec.bench.suite.items import Item
from mmspec.bench.suite.prediction import StepCosts
from mmspec.drafting import PLAIN
from mmspec.engine import Engine
from mmspec.errors import MmspecError
from mmspec.options import Options
from mmspec.replay import opened

PASSES = Passes(8, 1.0, middle_mean)
"""Quick forwards are repeated for a time: a disturbance is then a small part of the passes."""
FITTED = 96
"""Tokens of the answer on whose rounds the fitting of weights is timed."""


def measure_costs(
    engine: Engine,
    items: Sequence[Item],
    arms: Sequence[MethodArm],
    passes: Passes = PASSES,
) -> Iterator[StepCosts]:
    """Measure target and draft on one prompt for each number of images that a task begins with.

    Fitting weights and growing trees are measured for the methods that do.  Without one that
    drafts, only the target's plain step is.
    """
    drafting = [arm for arm in arms if arm.options.drafting != PLAIN.word]
    gamma = max((arm.options.longest_draft for arm in drafting), default=0)
    rows, words = range(1, gamma + 2), branch_words(engine) if drafting else []
    options = next((arm.options for arm in arms if arm.method.adaptive), None)
    for images, prompt in _prompts(items).items():
        target, draft = steps(engine, prompt, rows, words, passes)
        yield StepCosts(
            images,
            opened(engine, prompt.message).length,
            target,
            draft,
            [_refit(engine, prompt, options, word) for word in words] if options else [],
            {
                arm.method.name: list(tree_costs(engine, prompt, arm.options, passes))
                for arm in arms
                if arm.options.tree
            },
        )


def _refit(engine: Engine, prompt: Prompt, options: Options, word: str) -> float:
    """Seconds of a fit; one branch has no weights to fit, and noise may make the least of them."""
    if len(word) == 1:
        return 0.0
    return max(refit_cost(engine, prompt, options, word, FITTED).refit, 0.0)


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
