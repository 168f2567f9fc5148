"""`mmspec bench report`: writes tables and files about a run."""

from pathlib import Path

import click

from mmspec_bench.commands.output import show_tables
from mmspec_bench.report.merge import merge
from mmspec_bench.report.write import write
from mmspec_terminal.options import JSON
from mmspec_terminal.render import Screen
from mmspec_terminal.setup import with_screen


@click.command()
@click.argument("directories", nargs=-1, required=True, type=Path, metavar="DIR...")
@with_screen(JSON)
def report(screen: Screen, directories: tuple[Path, ...]) -> None:
    """Report on a run or on all its shards; files are written to the first DIR."""
    screen.progress("reading")
    run = merge(directories)
    screen.progress("writing")
    written = write(run, directories[0])
    if screen.as_json:
        screen.json({"methods": written.summaries, "files": list(map(str, written.files))})
        return
    screen.say(*written.remarks)
    show_tables(screen, [each for each in written.tables if each.in_terminal])
    screen.say(*written.files)
