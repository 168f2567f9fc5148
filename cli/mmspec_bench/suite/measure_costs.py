"""Measures costs of single forwards on a run's own prompts before the run."""

from collections.abc import Iterator, Sequence

from mmspec.chat.engine import Engine
from mmspec.chat.options import Options
from mmspec.diagnostics.prompts import Prompt
from mmspec.diagnostics.single_turn import prefilled_target
from mmspec.drafters.views import PLAIN
from mmspec.errors import MmspecError
from mmspec_bench.measure.adaptive_cost import refit_cost
from mmspec_bench.measure.costs import (
    Passes,
    branch_draftings,
    middle_mean,
    step_seconds,
    tree_costs,
)
from mmspec_bench.suite.answerer import Answerer
from mmspec_bench.suite.prediction import StepCosts
from mmspec_bench.suite.samples import SuiteSample

PASSES = Passes(8, 1.0, middle_mean)
"""How often costs are timed: short forwards for a second, so that disturbances matter little."""
FITTED_TOKENS = 96
"""Tokens of the answer in whose rounds the fit of adaptive weights is timed."""


def measure_costs(
    engine: Engine,
    samples: Sequence[SuiteSample],
    answerers: Sequence[Answerer],
    passes: Passes = PASSES,
) -> Iterator[StepCosts]:
    """Time target and draft on one prompt for each number of images in the tasks' first questions.

    Fits of weights and trees are timed for the methods that use them.  If no method drafts, only a
    plain step of the target is timed.
    """
    drafting = [answerer for answerer in answerers if answerer.options.drafting != PLAIN.spec]
    gamma = max((answerer.options.longest_draft for answerer in drafting), default=0)
    rows, words = range(1, gamma + 2), branch_draftings(engine) if drafting else []
    adaptive = next((answerer.options for answerer in answerers if answerer.method.adaptive), None)
    for images, prompt in _prompts(samples).items():
        target, draft = step_seconds(engine, prompt, rows, words, passes)
        yield StepCosts(
            images,
            prefilled_target(engine, prompt.message).length,
            target,
            draft,
            [_refit(engine, prompt, adaptive, word) for word in words] if adaptive else [],
            {
                answerer.method.name: list(tree_costs(engine, prompt, answerer.options, passes))
                for answerer in answerers
                if answerer.options.tree
            },
        )


def _refit(engine: Engine, prompt: Prompt, options: Options, word: str) -> float:
    """Seconds of a fit of adaptive weights, at least 0; one branch has no weights to fit."""
    if len(word) == 1:
        return 0.0
    return max(refit_cost(engine, prompt, options, word, FITTED_TOKENS).refit, 0.0)


def _prompts(samples: Sequence[SuiteSample]) -> dict[int, Prompt]:
    """By number of images, the first question of a task whose first sample is not broken."""
    prompts: dict[int, Prompt] = {}
    for sample in {sample.task: sample for sample in reversed(samples)}.values():
        try:
            message = sample.read()[0].message
        except MmspecError:
            continue
        prompts.setdefault(len(message.pictures), Prompt(sample.name, message))
    return dict(sorted(prompts.items()))
