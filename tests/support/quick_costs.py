"""Costs before a run of the suite, each from one pass: a run measures for seconds otherwise."""

from mmspec_bench.measure.costs import Passes
from mmspec_bench.suite import runner
from mmspec_bench.suite.measure_costs import measure_costs
from mmspec_cli.main import main


def measure_costs_once(engine, samples, answerers):
    return measure_costs(engine, samples, answerers, Passes(1))


def quick_main(arguments):
    """For `start_process`: `mmspec` with such costs."""
    runner.measure_costs = measure_costs_once
    return main(arguments)
