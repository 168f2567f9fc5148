"""`mmspec bench report`: writes tables and files about a run."""

from pathlib import Path

import click

from mmspec_bench.commands.output import show_tables
from mmspec_bench.report.merge import merge
from mmspec_bench.report.write import write
from mmspec_terminal.options import JSON, PLAIN
from mmspec_terminal.render import Screen


@click.command()
@click.argument("directories", nargs=-1, required=True, type=Path, metavar="DIR...")
@JSON
@PLAIN
def report(directories: tuple[Path, ...], as_json: bool, plain: bool) -> None:
    """Report on a run or on all its shards; files are written to the first DIR."""
    screen = Screen(plain=plain)
    screen.progress("reading")
    run = merge(directories)
    screen.progress("writing")
    written = write(run, directories[0])
    if as_json:
        screen.json({"methods": written.summaries, "files": list(map(str, written.files))})
        return
    for remark in written.remarks:
        screen.say(remark)
    show_tables(screen, [each for each in written.tables if each.in_terminal])
    for file in written.files:
        screen.say(str(file))
