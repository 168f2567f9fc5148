"""`mmspec bench simulate`: `--gamma auto` on simulated machines, against every fixed choice."""

from collections.abc import Sequence
from functools import partial
from itertools import groupby

import click

from mmspec_bench.commands.output import Output, show_tables, with_output
from mmspec_bench.measure.simulation import Cell, Simulation
from mmspec_bench.measure.simulation import simulate as run
from mmspec_bench.report.table import Table
from mmspec_terminal.render import Screen

NOTE = "Cost in % of plain decoding: best fixed choice (which), auto, auto calibrated."


@click.command()
@click.option(
    "--runs",
    type=click.IntRange(min=1),
    default=20,
    show_default=True,
    help="Answers of 512 tokens in each mean; four times as many of 128, sixteen of 32.",
)
@with_output
def simulate(output: Output, runs: int) -> int:
    """Simulate `--gamma auto` on machines of known costs, against plain and fixed choices.

    Drives the decoding loop with a clock in place of models; seeded. Exits with 1 if decoding is
    slower than plain by over 2 % (5 % at 32 tokens), or in over a tenth of the cells more than 5 %
    behind the best fixed choice with calibrated costs.
    """
    simulation = run(runs, output.screen.progress)
    output.report(simulation.as_dict(), partial(_show, output.screen, simulation))
    return 1 if simulation.slower or 10 * len(simulation.misses) > len(simulation.cells) else 0


def _show(screen: Screen, simulation: Simulation) -> None:
    by_row = groupby(simulation.cells, key=lambda cell: (cell.machine, cell.acceptance))
    rows = [(machine, f"{share:.2f}", *map(_text, cells)) for (machine, share), cells in by_row]
    lengths = sorted({cell.tokens for cell in simulation.cells})
    columns = ("machine", "acceptance", *(f"{number} tokens" for number in lengths))
    show_tables(screen, [Table("Costs by length of the answer", columns, rows, NOTE)], "speed")
    screen.say(f"slower than plain by more than allowed: {_names(simulation.slower)}")
    screen.say(f"calibrated, over 5 % behind the best choice: {_names(simulation.misses)}")


def _text(cell: Cell) -> str:
    best, auto, calibrated = (100 * cost for cost in (cell.best, cell.auto, cell.calibrated))
    return f"{best:.1f} ({cell.choice}), {auto:.1f}, {calibrated:.1f}"


def _names(cells: Sequence[Cell]) -> str:
    names = [f"{cell.machine} {cell.acceptance} {cell.tokens}" for cell in cells]
    return f"{len(names)} ({'; '.join(names)})" if names else "none"
