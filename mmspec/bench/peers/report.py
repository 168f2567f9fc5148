"""What a run of all peers says: JSON, and rows for a table."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from mmspec.bench.peers.measure import Figures, PeerResult

COLUMNS = (
    "",
    "tokens/s",
    "times first",
    "tokens per round",
    "first token, ms",
    "start to first token, s",
    "peak, MiB",
    "same tokens",
)
NONE = "-"


@dataclass(frozen=True, slots=True)
class PeerReport:
    """What was measured, on what and how."""

    model: str
    draft: str | None
    prompts: dict[str, int]
    """How many of each set."""
    repeats: int
    max_new_tokens: int
    peers: list[PeerResult]
    provenance: dict[str, Any]

    def as_dict(self) -> dict[str, Any]:
        """Everything, JSON-serializable."""
        return asdict(self)


def rows(results: Sequence[PeerResult], label: str) -> list[tuple[str, ...]]:
    """One row for each arm's answers to one set; where there are none, the reason."""
    return [_row(result, label) for result in results]


def markdown(report: PeerReport) -> str:
    """A table for each set of questions."""
    rule = ["---", *["--:"] * (len(COLUMNS) - 1)]
    return "\n\n".join(
        f"{counted(report, label)}\n\n"
        + "\n".join(map(_piped, [COLUMNS, rule, *rows(report.peers, label)]))
        for label in report.prompts
    )


def counted(report: PeerReport, label: str) -> str:
    """Such as `images: 4 prompts x 3`."""
    return f"{label}: {report.prompts[label]} prompts x {report.repeats}"


def _piped(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _row(result: PeerResult, label: str) -> tuple[str, ...]:
    figures = result.figures.get(label)
    if figures is None:
        return (result.name, f"cannot: {result.reasons[label]}", *[""] * (len(COLUMNS) - 2))
    start, peak = result.start_seconds, result.peak_memory_bytes
    return (
        result.name,
        *_decoding(figures),
        f"{start:.1f}" if start is not None else NONE,
        str(peak // 2**20),
        "yes" if figures.identical == figures.answers else _differing(figures),
    )


def _decoding(figures: Figures) -> tuple[str, ...]:
    ratio = figures.speed_up
    return (
        figures.tokens_per_second.text(0),
        ratio.text(2) if ratio.median else NONE,
        f"{figures.tokens_per_round:.2f}",
        f"{figures.first_token_seconds.median * 1e3:.0f}",
    )


def _differing(figures: Figures) -> str:
    return f"{figures.identical} of {figures.answers}"
