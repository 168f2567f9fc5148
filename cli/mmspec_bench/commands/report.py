"""`mmspec bench report`: shows the tables of a run and writes its measures."""

from pathlib import Path

import click

from mmspec.ground.output_files import replace_text
from mmspec_bench.commands.output import show_tables
from mmspec_bench.report.bench_run import ALL, read_run
from mmspec_bench.report.tables import report_tables, title
from mmspec_bench.table import csv_text
from mmspec_terminal.options import JSON
from mmspec_terminal.render import Screen
from mmspec_terminal.setup import with_screen


@click.command()
@click.argument("directories", nargs=-1, required=True, type=Path, metavar="DIR...")
@with_screen(JSON)
def report(screen: Screen, directories: tuple[Path, ...]) -> None:
    """Report on a run or its shards; CSV files are written to the first DIR."""
    screen.progress("reading")
    run, directory = read_run(*directories), directories[0]
    lines = run.task_summaries
    files = {directory / "methods.csv": lines, directory / "tasks.csv": run.turn_summaries}
    if screen.as_json:
        summaries = [line for line in lines if line["task"] == ALL]
        screen.json({"methods": summaries, "problem": run.problem, "files": list(map(str, files))})
    else:
        screen.say(title(run), *filter(None, [run.problem]))
        show_tables(screen, report_tables(run, lines))
    for file, measures in files.items():  # last: a folder that is another's may be read at least
        replace_text(file, csv_text(measures))
    if not screen.as_json:
        screen.say(*files)
