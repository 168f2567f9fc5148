"""Predicts a run's speed-up from measured costs of single forwards."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from mmspec_bench.suite.methods import NGRAM
from mmspec_bench.suite.metrics import ratio
from mmspec_bench.suite.rows import Row


@dataclass(frozen=True, slots=True)
class StepCosts:
    """Measured seconds of the parts of a round, on a prompt with `images` images."""

    images: int
    prompt_tokens: int
    target: list[float]
    """[n] seconds of a target forward over 1..n rows."""
    draft: list[float]
    """[R] seconds of one drafted token with 1..R branches; empty without a draft."""
    refit: list[float] = field(default_factory=list)
    """[R] seconds of one fit of the weights of 1..R branches; empty if no method fits weights."""
    trees: dict[str, list[float]] = field(default_factory=dict)
    """[2] by method: seconds of drafting one level of its tree, and of verifying the whole tree."""

    def as_dict(self) -> dict[str, Any]:
        """An entry of `costs` in a provenance file; `StepCosts(**entry)` reads it."""
        return asdict(self)

    def covers(self, row: Row) -> bool:
        """True if all forwards of the row's rounds were measured."""
        if has_trees(row):
            return row.method in self.trees
        return longest_draft([row]) < len(self.target) and num_branches(row) <= len(self.draft)

    def draft_step(self, row: Row) -> float:
        """Seconds of one drafted token of the row; 0 for prompt lookup."""
        return self.draft[num_branches(row) - 1] if num_branches(row) else 0.0

    def refits(self, row: Row) -> float:
        """Seconds of the row's fits of weights: one before every draft except the first."""
        if not row.weights or num_branches(row) > len(self.refit):
            return 0.0
        drafts = sum(round_.drafted > 0 for round_ in row.rounds)
        return max(drafts - 1, 0) * self.refit[num_branches(row) - 1]


def num_branches(row: Row) -> int:
    """Number of branches that a draft model computed; 0 for prompt lookup, which uses no model."""
    return 0 if row.method == NGRAM else len(row.branches)


def has_trees(row: Row) -> bool:
    """True if any draft was a tree."""
    return any(round_.levels is not None for round_ in row.rounds)


def longest_draft(rows: Iterable[Row]) -> int:
    """The most tokens that any round drafted."""
    return max((round_.drafted for row in rows for round_ in row.rounds), default=0)


def costs_for(row: Row, measured: Iterable[StepCosts]) -> StepCosts | None:
    """The costs with the nearest number of images; None if none cover the row."""
    covering = [costs for costs in measured if costs.covers(row)]
    return min(covering, key=lambda costs: abs(costs.images - row.images), default=None)


def predicted_speed_up(rows: Iterable[Row], measured: Sequence[StepCosts]) -> float:
    """The seconds of plain decoding divided by those of the run's rounds, both predicted.

    0 if no row is covered by the measured costs.
    """
    plain, ours = 0.0, 0.0
    for row in rows:
        if costs := costs_for(row, measured):
            plain += row.emitted * costs.target[0]
            ours += _tree_seconds(row, costs) if has_trees(row) else _chain_seconds(row, costs)
    return ratio(plain, ours)


def _chain_seconds(row: Row, costs: StepCosts) -> float:
    verify = sum(costs.target[round_.drafted] for round_ in row.rounds)
    return row.drafted * costs.draft_step(row) + verify + costs.refits(row)


def _tree_seconds(row: Row, costs: StepCosts) -> float:
    """Seconds of the row's rounds; every tree counts as a whole one, even if it was cut short."""
    level, verify = costs.trees[row.method]
    trees = sum(round_.drafted > 0 for round_ in row.rounds)
    return row.depth * level + trees * verify + (len(row.rounds) - trees) * costs.target[0]


def formula_speed_up(rows: Sequence[Row], measured: Sequence[StepCosts]) -> float:
    """tau / (gamma c + T_V / T_p), published instead of measurements (IbED, section 4).

    tau: block efficiency.  c: seconds of a drafted token divided by T_p.  T_V, T_p: seconds of a
    target forward over gamma + 1 rows and over one.  The formula assumes that every round drafts
    gamma tokens, and ignores fits of weights; 0 for trees, which it does not cover.
    """
    if any(map(has_trees, rows)):
        return 0.0
    gamma = longest_draft(rows)
    plain, ours = 0.0, 0.0
    for row in rows:
        if costs := costs_for(row, measured):
            plain += row.emitted * costs.target[0]
            ours += len(row.rounds) * (gamma * costs.draft_step(row) + costs.target[gamma])
    return ratio(plain, ours)
