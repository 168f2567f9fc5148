"""What measured costs of single forwards say that a run should have taken."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from mmspec.bench.suite.methods import NGRAM
from mmspec.bench.suite.metrics import ratio
from mmspec.bench.suite.rows import Row


@dataclass(frozen=True, slots=True)
class StepCosts:
    """Measured seconds of the parts of a round, on a prompt with `images` images."""

    images: int
    prompt_tokens: int
    target: list[float]
    """[n] a target forward over 1..n rows."""
    draft: list[float]
    """[R] one drafted token with 1..R branches; empty without a draft."""
    refit: list[float] = field(default_factory=list)
    """[R] fitting the weights of 1..R branches once; empty where that was not measured."""
    trees: dict[str, list[float]] = field(default_factory=dict)
    """[2] by method: one level of its tree drafted; the whole tree verified."""

    def as_dict(self) -> dict[str, Any]:
        """An entry of `costs` in a provenance file; `StepCosts(**entry)` reads it."""
        return asdict(self)

    def draft_seconds(self, branches: int, drafted: int) -> float:
        """Drafting `drafted` tokens; without branches it costs nothing."""
        return drafted * self.draft[branches - 1] if branches else 0.0

    def refit_seconds(self, row: Row) -> float:
        """Fitting weights before every draft that another draft has gone before."""
        if not row.weights or branches(row) > len(self.refit):
            return 0.0
        drafts = sum(1 for each in row.rounds if each.drafted)
        return max(drafts - 1, 0) * self.refit[branches(row) - 1]

    def covers(self, row: Row) -> bool:
        """Whether all forwards of the row's rounds were measured."""
        if grows(row):
            return row.method in self.trees
        return longest_draft([row]) < len(self.target) and branches(row) <= len(self.draft)


def branches(row: Row) -> int:
    """From how many branches a model drafted; n-grams are looked up on the host, by none."""
    return 0 if row.method == NGRAM else len(row.branches)


def grows(row: Row) -> bool:
    """Whether trees were drafted that are more than one path."""
    return any(each.levels is not None for each in row.rounds)


def longest_draft(rows: Iterable[Row]) -> int:
    """The most tokens any round drafted."""
    return max((each.drafted for row in rows for each in row.rounds), default=0)


def costs_for(row: Row, measured: Iterable[StepCosts]) -> StepCosts | None:
    """The measurement with the nearest number of images; None where none covers the row."""
    covering = [costs for costs in measured if costs.covers(row)]
    return min(covering, key=lambda costs: abs(costs.images - row.images), default=None)


@dataclass(frozen=True, slots=True)
class Modelled:
    """Seconds that measured costs give to some rounds."""

    plain: float = 0.0
    """As many plain rounds as there are tokens."""
    draft: float = 0.0
    """Weights being given."""
    verify: float = 0.0
    refit: float = 0.0
    """Fitting adaptive weights."""

    def __add__(self, other: "Modelled") -> "Modelled":
        """Of the rounds of both."""
        return Modelled(
            self.plain + other.plain,
            self.draft + other.draft,
            self.verify + other.verify,
            self.refit + other.refit,
        )

    @property
    def speed_up(self) -> float:
        """Plain over all parts of the rounds; 0 where nothing was measured."""
        return ratio(self.plain, self.draft + self.verify + self.refit)


def predicted_speed_up(rows: Iterable[Row], measured: Sequence[StepCosts]) -> float:
    """What the measured costs say of these very rounds, with nothing lost between the parts.

    0 where the costs of no row were measured.
    """
    return modelled(rows, measured).speed_up


def formula_speed_up(rows: Sequence[Row], measured: Sequence[StepCosts]) -> float:
    """tau / (gamma c + T_V / T_p), as published instead of a measurement (IbED, section 4).

    tau: block efficiency.  c: a drafted token over T_p.  T_V, T_p: a target forward over gamma + 1
    rows and over one.  Every round counts as one that drafts gamma, the last ones too.  It knows
    no trees and no fitting of weights.
    """
    if any(map(grows, rows)):
        return 0.0
    whole = modelled(rows, measured, longest_draft(rows))
    return ratio(whole.plain, whole.draft + whole.verify)


def modelled(
    rows: Iterable[Row], measured: Sequence[StepCosts], gamma: int | None = None
) -> Modelled:
    """The seconds of all rounds whose costs were measured.

    gamma: what each round drafts; None for what it did.
    """
    return sum((_modelled(row, measured, gamma) for row in rows), Modelled())


def _modelled(row: Row, measured: Sequence[StepCosts], gamma: int | None) -> Modelled:
    costs = costs_for(row, measured)
    if costs is None:
        return Modelled()
    if grows(row):
        return _grown(row, costs)
    counts = [each.drafted if gamma is None else gamma for each in row.rounds]
    return Modelled(
        row.emitted * costs.target[0],
        costs.draft_seconds(branches(row), sum(counts)),
        sum(costs.target[count] for count in counts),
        costs.refit_seconds(row),
    )


def _grown(row: Row, costs: StepCosts) -> Modelled:
    """Every tree verified as the whole one is, whatever the end of the answer cut off."""
    level, verify = costs.trees[row.method]
    trees = sum(1 for each in row.rounds if each.drafted)
    bare = (len(row.rounds) - trees) * costs.target[0]
    return Modelled(row.emitted * costs.target[0], row.depth * level, trees * verify + bare)
