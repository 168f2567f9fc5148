"""`mmspec bench`: measures speed and grounding."""

import click

from mmspec_bench.commands.context import context_command
from mmspec_bench.commands.grounding import grounding
from mmspec_bench.commands.peers import peers
from mmspec_bench.commands.report import report
from mmspec_bench.commands.run import run
from mmspec_bench.commands.speed import speed
from mmspec_terminal.help_pages import WholeGroup


@click.group(cls=WholeGroup)
def bench() -> None:
    """Measure speed and grounding; run the benchmark suite and report on it."""


for command in (speed, grounding, run, report, peers, context_command):
    bench.add_command(command)
