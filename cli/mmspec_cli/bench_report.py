"""`mmspec bench report`: what a run says, in a terminal and as files."""

from pathlib import Path

import click

from mmspec.bench.report.merge import merge
from mmspec.bench.report.published import PAPERS, PREFIX, read_paper
from mmspec.bench.report.table import Table
from mmspec.bench.report.write import Report, write
from mmspec.errors import UsageError
from mmspec_cli.options import JSON, PLAIN
from mmspec_cli.render import Screen


@click.command()
@click.argument("directories", nargs=-1, required=True, type=Path, metavar="DIR...")
@click.option(
    "--compare",
    multiple=True,
    metavar="|".join(PREFIX + name for name in PAPERS),
    help="Put a paper's numbers beside the run's; may be given again.",
)
@click.option(
    "--samples",
    type=click.IntRange(min=0),
    default=1,
    show_default=True,
    help="Of each task, to colour by accepted tokens.",
)
@JSON
@PLAIN
def report(
    directories: tuple[Path, ...],
    compare: tuple[str, ...],
    samples: int,
    as_json: bool,
    plain: bool,
) -> None:
    """Report on a run, or on all shards of one; files go into the first DIR."""
    screen = Screen(plain=plain)
    papers = [read_paper(word) for word in dict.fromkeys(compare)]
    screen.progress("reading")
    run = merge(directories)
    screen.progress("writing")
    try:
        written = write(run, papers, directories[0], samples)
    except OSError as error:
        file = error.filename or directories[0]
        raise UsageError(f"{file} cannot be written ({error.strerror or error})") from error
    if as_json:
        screen.json(_as_dict(written))
    else:
        _show(screen, written)
    if written.missing:
        screen.note(written.missing)


def _as_dict(written: Report) -> dict[str, object]:
    return {
        "methods": [each.as_dict() for each in written.summaries],
        "files": [str(file) for file in written.files],
    }


def _show(screen: Screen, written: Report) -> None:
    """Remarks and the telling tables; the files have all."""
    for section in written.sections:
        for remark in section.remarks:
            screen.say(remark)
        for table in section.tables:
            if table.brief:
                _show_table(screen, table)
    for file in written.files:
        screen.say(str(file))


def _show_table(screen: Screen, table: Table) -> None:
    screen.say(f"\n{table.title}")
    screen.table(table.columns, table.rows)
