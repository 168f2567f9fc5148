"""Predicted against measured speed-up, and where the time went that the prediction lacks."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import log

from mmspec.bench.report.merge import Run
from mmspec.bench.report.table import Section, Table, measured, number, percent, signed
from mmspec.bench.suite.metrics import Pair, pairs, ratio
from mmspec.bench.suite.prediction import Modelled, costs_for, modelled

TOLERANCE = 0.1
"""How far the measurement may lie from the prediction before a report accounts for it."""

PARTS = ("draft", "verify", "loop")


@dataclass(frozen=True, slots=True)
class Seconds:
    """Of plain decoding and, by part, of a method over the same answers."""

    plain: float
    parts: dict[str, float]

    @property
    def speed_up(self) -> float:
        """Plain over the method's."""
        return ratio(self.plain, sum(self.parts.values()))


@dataclass(frozen=True, slots=True)
class Account:
    """A method's decoding as predicted and as measured."""

    method: str
    tokens: int
    predicted: Seconds
    measured: Seconds

    @property
    def difference(self) -> float:
        """Of the measured speed-up from the predicted one, relative to that."""
        return self.measured.speed_up / self.predicted.speed_up - 1

    @property
    def close(self) -> bool:
        """Whether they agree."""
        return abs(self.difference) <= TOLERANCE

    @property
    def reason(self) -> str:
        """What explains most of the difference: plain decoding, or a part of the method's."""
        sign = 1 if self.difference > 0 else -1
        plain = log(self.measured.plain / self.predicted.plain)
        ours = plain - log(self.measured.speed_up / self.predicted.speed_up)
        if sign * plain > -sign * ours:
            return "plain decoding"
        excess = {part: self.measured.parts[part] - self.predicted.parts[part] for part in PARTS}
        return min(PARTS, key=lambda part: sign * excess[part])


def accounts(run: Run) -> list[Account]:
    """One for each method whose costs were measured, over the answers that plain gave too."""
    found = (_account(run, method) for method in run.drafting)
    return [each for each in found if each is not None]


def _account(run: Run, method: str) -> Account | None:
    paired = [pair for pair in pairs(run.of(method), run.plain) if _known(pair, run)]
    if not paired:
        return None
    rows = [row for row, _ in paired]
    costs: Modelled = modelled(rows, run.costs)
    parts = {name: sum(row.seconds[name] for row in rows) for name in ("draft", "verify", "decode")}
    loop = parts.pop("decode") - sum(parts.values())
    return Account(
        method,
        sum(row.emitted for row in rows),
        Seconds(costs.plain, {"draft": costs.draft, "verify": costs.verify, "loop": 0.0}),
        Seconds(sum(plain.seconds["decode"] for _, plain in paired), parts | {"loop": loop}),
    )


def _known(pair: Pair, run: Run) -> bool:
    """Whether the row's costs were measured, and both decoded at all."""
    row, plain = pair
    return bool(row.rounds and plain.rounds and costs_for(row, run.costs))


def section(run: Run) -> Section:
    """The comparison, and for methods that differ the milliseconds of a token by part."""
    every = accounts(run)
    if not every:
        return Section("Predicted and measured", ["Nothing to compare: no costs were measured."])
    apart = [each for each in every if not each.close]
    remarks = list(_remarks(apart)) or [
        f"Every measured speed-up is within {percent(TOLERANCE, 0)} of the predicted one."
    ]
    return Section("Predicted and measured", remarks, (), [_comparison(every), *_parts(apart)])


def _remarks(apart: Sequence[Account]) -> Iterator[str]:
    for each in apart:
        yield (
            f"{each.method}: {each.measured.speed_up:.2f} times plain, {signed(each.difference)} "
            f"from the predicted {each.predicted.speed_up:.2f}; most of it is {each.reason}."
        )


def _comparison(every: Sequence[Account]) -> Table:
    note = (
        "Decoding alone, sums over the same answers. Predicted: the rounds that were, at the costs "
        "of single forwards measured before the run; what it lacks is time outside the forwards, "
        "and forwards that took longer than alone."
    )
    lines = [
        (
            each.method,
            measured(each.predicted.speed_up),
            measured(each.measured.speed_up),
            signed(each.difference),
        )
        for each in every
    ]
    columns = ("method", "predicted", "measured", "difference")
    return Table("Speed-up, predicted and measured", columns, lines, note, brief=True)


def _parts(apart: Sequence[Account]) -> list[Table]:
    if not apart:
        return []
    columns = (
        *("method", "plain, predicted", "measured", "draft, predicted", "measured"),
        *("verify, predicted", "measured", "loop, measured", "most of it"),
    )
    note = f"Milliseconds of a token, for methods more than {percent(TOLERANCE, 0)} off."
    return [Table("Where the time went", columns, [_milliseconds(each) for each in apart], note)]


def _milliseconds(each: Account) -> tuple[str, ...]:
    one, other = each.predicted, each.measured
    pairs_of = [(one.plain, other.plain)]
    pairs_of += [(one.parts[name], other.parts[name]) for name in ("draft", "verify")]
    both = [seconds for pair in pairs_of for seconds in pair]
    cells = (number(1e3 * value / each.tokens, 3) for value in (*both, other.parts["loop"]))
    return (each.method, *cells, each.reason)
