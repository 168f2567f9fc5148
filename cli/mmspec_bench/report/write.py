"""Composes a report and writes its files."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from mmspec.errors import UsageError
from mmspec_bench.report import (
    answer_checks,
    drafting,
    provenance_tables,
    published_comparison,
    timing,
    vs_best_view,
)
from mmspec_bench.report.csv_files import csv_files
from mmspec_bench.report.markdown import document
from mmspec_bench.report.merge import BenchRun
from mmspec_bench.report.plots import run_figures
from mmspec_bench.report.plots.style import Plot, save
from mmspec_bench.report.published import Paper
from mmspec_bench.report.samples_page import samples_page
from mmspec_bench.report.table import Section, count_of
from mmspec_bench.suite.summary import Summary, summarise

REPORT, SAMPLES, FIGURES = "report.md", "samples.html", "figures"


@dataclass(frozen=True, slots=True)
class Report:
    """The files of a report, and its tables for the terminal."""

    files: list[Path]
    summaries: list[Summary]
    sections: list[Section]
    warning: str = ""
    """The reason why there are no figures; empty if there are."""


def write(run: BenchRun, papers: Sequence[Paper], folder: Path, samples: int = 1) -> Report:
    """Write Markdown, CSV, figures and coloured answers into a folder.

    samples: coloured samples per task.  Without matplotlib only the figures are missing.
    """
    summaries = [summarise(run.of(name), run.plain) for name in run.decoding]
    plots, warning = _save_plots(figures(run, papers), folder / FIGURES)
    contents = sections(run, summaries, papers)
    captions = {plot.name: plot.caption for plot in plots}
    texts = {
        REPORT: document("Benchmark report", contents, captions),
        SAMPLES: samples_page(run, samples),
        **csv_files(run, summaries, papers),
    }
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8")
    names = [*texts, *(f"{FIGURES}/{plot.name}.png" for plot in plots)]
    return Report([folder / name for name in names], summaries, contents, warning)


def _save_plots(plots: Sequence[Plot], folder: Path) -> tuple[list[Plot], str]:
    """Save figures; without matplotlib returns none, and the reason."""
    folder.mkdir(exist_ok=True)
    try:
        for plot in plots:
            save(plot, folder)
    except UsageError as error:
        return [], str(error)
    return list(plots), ""


def figures(run: BenchRun, papers: Sequence[Paper]) -> list[Plot]:
    """The figures for which the run has data."""
    if not run.drafting:
        return []
    values = [(published_comparison.first_turn_values(run, paper), paper.title) for paper in papers]
    published = next((pair for pair in values if pair[0]), ({}, ""))
    adaptive = [name for name in run.drafting if any(row.weights for row in run.of(name))]
    return [
        run_figures.efficiency(run, *published),
        run_figures.accepted(run),
        *(run_figures.weights(run, name) for name in adaptive),
    ]


def sections(run: BenchRun, summaries: Sequence[Summary], papers: Sequence[Paper]) -> list[Section]:
    """The sections of the report, without empty tables and without empty sections."""
    questions = count_of(len({row.key for row in run.rows}), "question")
    tasks, methods = count_of(len(run.tasks), "task"), count_of(len(run.methods), "method")
    subject = f"{provenance_tables.title(run)}: {questions} of {tasks}, {methods}."
    times = [timing.speeds(summaries), timing.speed_ups(summaries), timing.stages(run)]
    settings = [provenance_tables.settings(run), provenance_tables.skipped_samples(run)]
    every = [
        Section("What was run", [subject, *run.notes]),
        _drafting(run, summaries),
        Section("Time", tables=times),
        _answers(run),
        *(published_comparison.section(run, paper) for paper in papers),
        Section("Settings", tables=settings),
    ]
    filled = [replace(s, tables=[table for table in s.tables if table.rows]) for s in every]
    return [section for section in filled if section.remarks or section.tables]


def _drafting(run: BenchRun, summaries: Sequence[Summary]) -> Section:
    tables = [
        drafting.by_method(summaries),
        drafting.by_images(run),
        *vs_best_view.tables(run),
        drafting.by_task(run, later=False),
        drafting.by_task(run, later=True),
        drafting.by_position(summaries),
        provenance_tables.notes(run),
    ]
    weights = [run_figures.weights_name(name) for name in run.drafting]
    return Section("Drafting", (), ("efficiency", "accepted", *weights), tables)


def _answers(run: BenchRun) -> Section:
    compared = sum(row.identical is not None for row in run.rows)
    remarks = []
    if not compared:
        remarks.append("No answer was compared with plain decoding.")
    elif not answer_checks.diverging(run):
        remarks.append(f"No answer differs from plain decoding's, of {compared} compared.")
    tables = [
        answer_checks.identical_answers(run),
        answer_checks.divergences(run),
        answer_checks.facts(run),
    ]
    return Section("Answers", remarks, (), tables)
