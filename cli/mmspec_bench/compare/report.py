"""The report of `bench peers`, as JSON and as tables."""

from dataclasses import dataclass
from typing import Any

from mmspec_bench.compare.runner import PeerResult
from mmspec_bench.table import Table

COLUMNS = (
    *("", "tokens/s", "times first", "tokens per round", "first token, ms"),
    *("start to first token, s", "peak, MiB", "same tokens"),
)
NONE = "-"
NOTE = (
    "Medians [range]. Times first: beside the first row, pair by pair. First token: from the "
    "question. Start to first token: a new process, with loading. Same tokens: as the first row."
)
"""What the columns mean."""


@dataclass(frozen=True, slots=True)
class PeerReport:
    """The results of all methods, with models, prompts and provenance."""

    model: str
    draft: str | None
    prompts: dict[str, int]
    """Number of prompts in each set, by the set's name."""
    repeats: int
    max_new_tokens: int
    peers: list[PeerResult]
    provenance: dict[str, Any]


def tables(report: PeerReport) -> list[Table]:
    """A table for each set of questions; a row per method: its figures, or why it has none."""
    return [
        Table(
            f"{label}: {count} prompts x {report.repeats}",
            COLUMNS,
            [_row(result, label) for result in report.peers],
            NOTE,
        )
        for label, count in report.prompts.items()
    ]


def _row(result: PeerResult, label: str) -> tuple[str, ...]:
    figures, start = result.figures.get(label), result.start_seconds
    if figures is None:
        return (result.name, f"cannot: {result.reasons[label]}", *[""] * (len(COLUMNS) - 2))
    same = figures.identical == figures.answers
    return (
        result.name,
        figures.tokens_per_second.text(0),
        figures.speed_up.text(2) if figures.speed_up.median else NONE,
        f"{figures.tokens_per_round:.2f}",
        f"{figures.first_token_seconds.median * 1e3:.0f}",
        NONE if start is None else f"{start:.1f}",
        str(result.peak_memory_bytes // 2**20),
        "yes" if same else f"{figures.identical} of {figures.answers}",
    )
