"""What a measurement on random weights says, as tables."""

from collections.abc import Sequence
from dataclasses import dataclass

from mmspec.bench.synthetic.floor import Cost
from mmspec.bench.synthetic.imposed import Imposed
from mmspec.bench.synthetic.measure import SyntheticReport

Row = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Table:
    """Cells of text under columns, and what they are about."""

    title: str
    columns: Row
    rows: Sequence[Row]

    @property
    def markdown(self) -> str:
        """Without the title."""
        rule = ("---", *["--:"] * (len(self.columns) - 1))
        return "\n".join(f"| {' | '.join(row)} |" for row in (self.columns, rule, *self.rows))


def tables(report: SyntheticReport) -> list[Table]:
    """Forwards beside the floor, rounds with imposed acceptance, and what precedes them."""
    return [
        Table(_setting(report), ("", "ms", "floor, ms", "floor / measured"), _forwards(report)),
        Table(
            "Acceptance is imposed by a script, for random weights have none: speed-ups say what "
            "this machine would make of it, and nothing of any model",
            ("rounds of", "tokens, imposed", "ms", "device waits", "tokens/s", "speed-up"),
            [_round(report, row) for row in report.rounds],
        ),
        Table("Before the first token", ("", "positions", "ms", "positions/s"), _before(report)),
        Table(
            f"Ratios; {report.peak_memory_bytes / 2**30:.2f} GiB at most in memory",
            ("", "measured"),
            [(name, f"{ratio:.3f}") for name, ratio in report.ratios.items()],
        ),
    ]


def _setting(report: SyntheticReport) -> str:
    return (
        f"{report.checkpoint}, random weights, on {report.device}, "
        f"{report.dtype}, quantize {report.quantize}; "
        f"{report.positions} positions; copies move {report.bandwidth / 1e9:.0f} GB/s; "
        f"medians of {report.repeats}"
    )


def _forwards(report: SyntheticReport) -> list[Row]:
    named = {"plain step": report.verify[1]}
    named |= {f"verify {n} rows": cost for n, cost in report.verify.items() if n > 1}
    named |= {f"drafted token, {word}": cost for word, cost in report.draft.items()}
    return [_forward(name, cost, report.bandwidth) for name, cost in named.items()]


def _forward(name: str, cost: Cost, bandwidth: float) -> Row:
    floor = cost.floor(bandwidth)
    return name, _ms(cost.seconds), _ms(floor), f"{floor / cost.seconds:.0%}"


def _round(report: SyntheticReport, row: Imposed) -> Row:
    waiting = "" if row.waiting is None else f"{row.waiting:.1%}"
    speed = f"{row.tokens_per_second:.1f}", f"{report.speed_up(row):.2f}"
    return row.drafting, f"{row.tokens_per_round:.2f}", _ms(row.round), waiting, *speed


def _before(report: SyntheticReport) -> list[Row]:
    rows: list[Row] = [("vision tower, one image", "", _ms(report.vision), "")]
    for images, each in report.prefill.items():
        rate = f"{each.positions / each.seconds:.0f}"
        rows.append((f"prefill, images: {images}", str(each.positions), _ms(each.seconds), rate))
    return rows


def _ms(seconds: float) -> str:
    return f"{seconds * 1e3:.3f}"
