"""`mmspec bench speed --synthetic`: the cost of forwards on random weights."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from tempfile import gettempdir
from typing import Any

import click

from mmspec.ground.errors import UsageError
from mmspec_bench.measure.exact_price import price_table
from mmspec_bench.random_weights.bandwidth_bound import Cost
from mmspec_bench.random_weights.checkpoints import write_checkpoints
from mmspec_bench.random_weights.measure import RandomWeightsReport, measure
from mmspec_bench.random_weights.shapes import SHAPES
from mmspec_bench.report.table import Table
from mmspec_terminal.options import together
from mmspec_terminal.render import Screen

SYNTHETIC = together(
    click.option(
        "--synthetic",
        metavar="|".join(SHAPES),
        help="Measure costs of forwards on random weights of these sizes, and nothing else.",
    ),
    click.option(
        "--synthetic-dir",
        type=Path,
        metavar="DIR",
        help="Where they are written and kept. Default: mmspec-synthetic in the temporary folder.",
    ),
)
LOADING_OPTIONS = ("backend", "device", "dtype", "quantize", "threads")
"""Options for loading models that apply to random weights."""
OPTIONS = {
    *LOADING_OPTIONS,
    *("exact", "repeats", "synthetic", "synthetic_dir", "out", "as_json", "plain"),
}
"""All options of `bench speed` that apply to random weights."""


def measure_random(
    screen: Screen,
    name: str,
    directory: Path | None,
    repeats: int,
    loading: Mapping[str, Any],
    *,
    priced: bool,
) -> RandomWeightsReport:
    """Write the checkpoints if they are missing, then load and measure them."""
    place = directory or Path(gettempdir()) / "mmspec-synthetic"
    checkpoints = write_checkpoints(name, place, screen.progress)
    size = checkpoints.bytes / 1e9
    screen.note(f"random weights: {checkpoints.target.parent}, {size:.2f} GB")
    options = {option: loading[option] for option in LOADING_OPTIONS}
    return measure(checkpoints, repeats, screen.progress, priced=priced, **options)


def require_alone() -> None:
    """Raise UsageError for options that choose a model or prompts together with `--synthetic`."""
    context, command_line = click.get_current_context(), click.core.ParameterSource.COMMANDLINE
    for option in context.command.params:
        name = option.name or ""
        if name not in OPTIONS and context.get_parameter_source(name) == command_line:
            raise UsageError(f"--synthetic measures random weights: leave {option.opts[0]} out")


NOTE = "Bound: the bytes that the forward reads, at the speed of a large copy in this run."


def tables(report: RandomWeightsReport) -> list[Table]:
    """Forwards with their bandwidth bound, the stages before the first token, and ratios."""
    peak = f"{report.peak_memory_bytes / 2**30:.2f} GiB"
    ratios = [(name, f"{ratio:.3f}") for name, ratio in report.ratios.items()]
    columns, bounds = ("", "positions", "ms", "positions/s"), ("", "ms", "bound, ms", "bound / ms")
    return [
        Table(_setting(report), bounds, list(_forwards(report)), NOTE),
        Table("Before the first token", columns, list(_before(report))),
        Table(f"Ratios; peak memory {peak}", ("", "measured"), ratios),
        *([price_table(report.prices)] if report.prices else []),
    ]


def _setting(report: RandomWeightsReport) -> str:
    return (
        f"{report.checkpoint}, random weights, on {report.device}, "
        f"{report.dtype}, quantize {report.quantize}; "
        f"{report.positions} positions; copies move {report.bandwidth / 1e9:.0f} GB/s; "
        f"medians of {report.repeats}"
    )


def _forwards(report: RandomWeightsReport) -> Iterator[tuple[str, ...]]:
    for rows, cost in report.verify.items():
        yield _forward("plain step" if rows == 1 else f"verify {rows} rows", cost, report)
    for drafting, cost in report.draft.items():
        yield _forward(f"drafted token, {drafting}", cost, report)


def _forward(name: str, cost: Cost, report: RandomWeightsReport) -> tuple[str, ...]:
    bound = cost.bound(report.bandwidth)
    return name, _ms(cost.seconds), _ms(bound), f"{bound / cost.seconds:.0%}"


def _before(report: RandomWeightsReport) -> Iterator[tuple[str, ...]]:
    yield "vision tower, one image", "", _ms(report.vision), ""
    for images, prefill in report.prefill.items():
        rate = f"{prefill.positions / prefill.seconds:.0f}"
        yield f"prefill, images: {images}", str(prefill.positions), _ms(prefill.seconds), rate


def _ms(seconds: float) -> str:
    return f"{seconds * 1e3:.3f}"
