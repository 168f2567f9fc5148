"""`mmspec bench`: how fast, and how well grounded."""

import click

from mmspec_cli.bench_context import context_command
from mmspec_cli.bench_grounding import grounding
from mmspec_cli.bench_peers import peers
from mmspec_cli.bench_report import report
from mmspec_cli.bench_run import run
from mmspec_cli.bench_speed import speed


@click.group()
def bench() -> None:
    """Measure speed and grounding; run the benchmark suite and report on it."""


for command in (speed, grounding, run, report, peers, context_command):
    bench.add_command(command)
