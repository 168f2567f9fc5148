"""Calibrations, reports and runs of the benchmark, and how a process uses them."""

from pathlib import Path

from mmspec.decoding.exact_rows import ExactRows
from mmspec.draft_length.calibration_file import CalibrationFile
from mmspec.exactness.finding import Finding, FindingFile
from mmspec_bench.report.merge import merge
from mmspec_bench.report.write import report_tables
from support import synthetic_run
from support.scripted_clock import FLAT

KEY = {"machine": "x", "backend": {"name": "torch"}}


def make_measured(folder: Path) -> None:
    """A calibration and a finding."""
    CalibrationFile(folder / "calibration.json", KEY).write(FLAT.calibration())
    FindingFile(folder / "finding.json", KEY).write(Finding(1.02, True, ExactRows(8, 64)))


def use_measured(file: Path, _: str) -> None:
    """Read both, and use what they hold."""
    calibration, _ = CalibrationFile(file.parent / "calibration.json", KEY).read()
    for context in (0, 100, 10**6):
        calibration.round_costs(1, context)
        calibration.tree_costs(8, 1, context)
    finding = FindingFile(file.parent / "finding.json", KEY).read()
    if finding:
        finding.line()
        if finding.rows:
            list(finding.rows.tiles(100))


METHODS = ("none", "M", "MT", "adaptive:MT")


def make_run(folder: Path) -> None:
    """A run of few rows."""
    rows = list(synthetic_run.rows_of(1, METHODS, ("chart", "spot")))
    synthetic_run.write(folder, rows, synthetic_run.provenance(METHODS))


def use_run(file: Path, _: str) -> None:
    """Report on the run."""
    run = merge([file.parent])
    report_tables(run, run.task_summaries, [])
