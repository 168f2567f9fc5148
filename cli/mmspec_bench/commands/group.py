"""`mmspec bench`: measures speed, and answers suites of questions."""

import click

from mmspec_bench.commands.peers import peers
from mmspec_bench.commands.report import report
from mmspec_bench.commands.run import run
from mmspec_bench.commands.speed import speed
from mmspec_terminal.help_pages import WholeGroup


@click.group(cls=WholeGroup)
def bench() -> None:
    """Measure speed; run the benchmark suite and report on it."""


for command in (speed, run, report, peers):
    bench.add_command(command)
