"""Predicted against measured speed-up, and where the time went that the prediction lacks."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import log

from mmspec.bench.report.merge import Run
from mmspec.bench.report.table import Section, Table, measured, percent, signed
from mmspec.bench.suite.methods import ADAPTIVE
from mmspec.bench.suite.metrics import Pair, mean, pairs, ratio
from mmspec.bench.suite.prediction import Modelled, costs_for, modelled
from mmspec.bench.suite.rows import Row

TOLERANCE = 0.1
"""How far the measurement may lie from the prediction before a report accounts for it."""

PARTS = {"draft": "drafting", "verify": "verifying", "loop": "other"}
"""Of a round, and what a sentence calls them."""


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
    refit: float = 0.0
    """Of the predicted drafting, fitting weights."""
    unmeasured: str = ""
    """What the prediction lacks because it was not measured before the run."""

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

    @property
    def shares(self) -> dict[str, float]:
        """By part, what it took beyond the prediction, relative to all that was predicted."""
        whole = sum(self.predicted.parts.values())
        return {
            part: (self.measured.parts[part] - self.predicted.parts[part]) / whole for part in PARTS
        }


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
        Seconds(
            costs.plain, {"draft": costs.draft + costs.refit, "verify": costs.verify, "loop": 0.0}
        ),
        Seconds(sum(plain.seconds["decode"] for _, plain in paired), parts | {"loop": loop}),
        costs.refit,
        _unmeasured(run, rows),
    )


def _unmeasured(run: Run, rows: Sequence[Row]) -> str:
    """That fits were not timed, and what they seem to take: beside the same views, fixed."""
    if not rows[0].weights or any(costs.refit for costs in run.costs):
        return ""
    fixed = rows[0].method.replace(ADAPTIVE, "")
    ours, theirs = drafting_seconds(rows), drafting_seconds(run.of(fixed))
    told = f": a round drafts {1e3 * (ours - theirs):+.2f} ms beside {fixed}" if theirs else ""
    return f"the fitting of weights, which was not measured{told}"


def drafting_seconds(rows: Iterable[Row]) -> float:
    """The mean of a round that drafts."""
    drafting = [each for row in rows for each in row.rounds if each.drafted]
    return mean(each.draft_seconds for each in drafting)


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
        lacking = f", without {each.unmeasured}" if each.unmeasured else ""
        rest = ", ".join(f"{PARTS[part]} {signed(share)}" for part, share in each.shares.items())
        plain = signed(each.measured.plain / each.predicted.plain - 1)
        yield (
            f"{each.method}: {each.measured.speed_up:.2f} times plain, {signed(each.difference)} "
            f"from {each.predicted.speed_up:.2f}, predicted from single forwards{lacking}. The "
            f"rest, of the predicted time: {rest}; plain decoding {plain}. Most of it is "
            f"{each.reason}."
        )


def _comparison(every: Sequence[Account]) -> Table:
    note = (
        "Decoding alone, sums over the same answers. Predicted: the rounds that were, at the costs "
        "of single forwards and fits of weights measured before the run; what it lacks is time "
        "outside of these, and forwards that took longer than alone."
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
        *("method", "plain, predicted", "measured", "draft, predicted", "of it fits", "measured"),
        *("verify, predicted", "measured", "loop, measured", "most of it"),
    )
    note = f"Milliseconds of a token, for methods more than {percent(TOLERANCE, 0)} off."
    return [Table("Where the time went", columns, [_milliseconds(each) for each in apart], note)]


def _milliseconds(each: Account) -> tuple[str, ...]:
    one, other = each.predicted, each.measured
    seconds = (
        *(one.plain, other.plain),
        *(one.parts["draft"], each.refit, other.parts["draft"]),
        *(one.parts["verify"], other.parts["verify"], other.parts["loop"]),
    )
    return (each.method, *(measured(1e3 * part / each.tokens, 3) for part in seconds), each.reason)
