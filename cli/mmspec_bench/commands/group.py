"""`mmspec bench`: measures speed, and answers suites of questions."""

from mmspec_bench.commands.peers import peers
from mmspec_bench.commands.report import report
from mmspec_bench.commands.run import run
from mmspec_bench.commands.speed import speed
from mmspec_terminal.help_pages import WholeGroup

bench = WholeGroup(
    "bench",
    commands=[speed, run, report, peers],
    help="Measure speed; run the benchmark suite and report on it.",
)
