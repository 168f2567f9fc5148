"""`mmspec bench speed --synthetic`: what rounds cost where no weights are."""

from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from tempfile import gettempdir

import click

from mmspec.bench.report.plots.floor import floor_plot
from mmspec.bench.report.plots.style import Look, save
from mmspec.bench.synthetic.checkpoints import write_kit
from mmspec.bench.synthetic.measure import SyntheticReport, measure, open_bench
from mmspec.bench.synthetic.tables import tables
from mmspec.errors import UsageError
from mmspec_cli.render import Screen

SYNTHETIC = click.option(
    "--synthetic",
    metavar="llava-1.5-7b|llava-1.5-13b|mini|tiny",
    help="Measure what rounds cost on random weights of these sizes, and nothing else.",
)
DIRECTORY = click.option(
    "--synthetic-dir",
    type=Path,
    metavar="DIR",
    help="Where they are written and kept. Default: mmspec-synthetic in the temporary folder.",
)
FIGURE = ".png"
FITTING = {"backend", "device", "dtype", "quantize", "repeats"}
"""Options of `bench speed` that apply."""


def synthetic(
    screen: Screen,
    name: str,
    directory: Path | None,
    repeats: int,
    **where: str,
) -> SyntheticReport:
    """Write the checkpoints where they are not there yet, load and measure them."""
    place = directory or Path(gettempdir()) / "mmspec-synthetic"
    kit = write_kit(name, place, screen.progress)
    screen.note(f"random weights: {kit.target.parent}, {kit.bytes / 1e9:.2f} GB")
    screen.progress("loading")
    return measure(open_bench(kit, **where), name, repeats, screen.progress)


def require_alone(context: click.Context) -> None:
    """Refuse options that choose a model or prompts beside `--synthetic`; raises UsageError."""
    given = click.core.ParameterSource.COMMANDLINE
    allowed = FITTING | {"synthetic", "synthetic_dir", "out", "as_json", "plain"}
    for option in context.command.params:
        name = option.name or ""
        if name not in allowed and context.get_parameter_source(name) == given:
            raise UsageError(f"--synthetic measures random weights: leave {option.opts[0]} out")
    out = context.params["out"]
    if out and out.suffix == FIGURE:
        raise UsageError(f"--out {out}: the report is JSON, beside its figure: name a .json file")


def draw(screen: Screen, report: SyntheticReport, out: Path | None) -> None:
    """Draw costs beside the floor next to the JSON file `out`, where matplotlib is installed."""
    if out is None:
        return
    if find_spec("matplotlib") is None:
        screen.note('no figure: it needs matplotlib, pip install "mmspec[bench]"')
        return
    save(replace(floor_plot(report), name=out.stem), Look.of(()), out.parent)


def show(screen: Screen, report: SyntheticReport) -> None:
    """Print every table, as Markdown where plain."""
    for number, table in enumerate(tables(report)):
        screen.say(("\n" if number else "") + table.title)
        if screen.plain:
            screen.say("\n" + table.markdown)
        else:
            screen.table(table.columns, table.rows)
