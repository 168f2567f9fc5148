"""Composes a report and writes its files."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from mmspec.ground.errors import MmspecError, UsageError
from mmspec.ground.output_files import make_directory, replace_text
from mmspec_bench.markdown import document
from mmspec_bench.report import provenance_tables, published, tables
from mmspec_bench.report.csv_files import csv_files
from mmspec_bench.report.figure import FIGURE, draw_figure
from mmspec_bench.report.merge import BenchRun
from mmspec_bench.report.pair_table import view_pairs
from mmspec_bench.report.published import Paper
from mmspec_bench.report.samples_page import SAMPLES, samples_page
from mmspec_bench.suite.metrics import Summary, summarise
from mmspec_bench.table import Section, count_of

REPORT, FIGURES = "report.md", "figures"


@dataclass(frozen=True, slots=True)
class Report:
    """The files of a report, and its tables for the terminal."""

    files: list[Path]
    summaries: list[Summary]
    sections: list[Section]
    warnings: list[str]
    """The reasons why a file is missing."""


def write(run: BenchRun, papers: Sequence[Paper], folder: Path) -> Report:
    """Write Markdown, CSV, a figure and a page of samples into a folder.

    A warning says why there is no figure or no page: without matplotlib, or without the suite.
    """
    summaries = [summarise(run.of(name), run.plain) for name in run.decoding]
    contents = sections(run, summaries, papers)
    figures, warning = _figure(run, papers, folder)
    page, reason = _samples(run)
    texts = {
        REPORT: document("Benchmark report", contents, figures),
        **csv_files(run, summaries),
        **page,
    }
    for name, text in texts.items():
        replace_text(folder / name, text)
    files = [folder / name for name in (*texts, *figures)]
    return Report(files, summaries, contents, [why for why in (warning, reason) if why])


def _samples(run: BenchRun) -> tuple[dict[str, str], str]:
    """The page of samples by its file, and the reason if there is none."""
    try:
        return {SAMPLES: samples_page(run)}, ""
    except MmspecError as error:
        return {}, f"no {SAMPLES}: {error}"


def _figure(run: BenchRun, papers: Sequence[Paper], folder: Path) -> tuple[dict[str, str], str]:
    """The figure's caption by its file, if any method drafted, and the reason if there is none."""
    if not run.drafting:
        return {}, ""
    values = [(published.first_turn_values(run, paper), paper.title) for paper in papers]
    diamonds, paper = next((pair for pair in values if pair[0]), ({}, ""))
    name = f"{FIGURES}/{FIGURE}"
    make_directory(folder / FIGURES)
    try:
        draw_figure(run, diamonds, paper, folder / name)
    except UsageError as error:
        return {}, str(error)
    whose = f"; the open diamonds are published in {paper}" if diamonds else ""
    return {name: f"Tokens per round by task and method, first turns{whose}."}, ""


def sections(run: BenchRun, summaries: Sequence[Summary], papers: Sequence[Paper]) -> list[Section]:
    """The sections of the report, without empty tables and without empty sections."""
    questions = count_of(len({row.key for row in run.rows}), "question")
    tasks, methods = count_of(len(run.tasks), "task"), count_of(len(run.methods), "method")
    subject = f"{provenance_tables.title(run)}: {questions} of {tasks}, {methods}."
    compared = sum(row.identical is not None for row in run.rows)
    answers = []
    if not compared:
        answers.append("No answer was compared with plain decoding.")
    elif not tables.diverging(run):
        answers.append(f"No answer differs from plain decoding's, of {compared} compared.")
    every = [
        Section("What was run", [subject, *run.notes]),
        Section(
            "Drafting",
            tables=[
                tables.block_efficiencies(summaries),
                tables.by_images(run),
                *tables.against_best_view(run),
                view_pairs(run),
                tables.by_task(run, later=False),
                tables.by_task(run, later=True),
                tables.by_position(summaries),
                provenance_tables.notes(run),
            ],
            has_figure=True,
        ),
        Section(
            "Time",
            tables=[tables.speeds(summaries), tables.speed_ups(summaries), tables.stages(run)],
        ),
        Section(
            "Answers",
            answers,
            [tables.identical_answers(run), tables.divergences(run), tables.facts(run)],
        ),
        *(published.section(run, paper) for paper in papers),
        Section(
            "Settings",
            tables=[provenance_tables.settings(run), provenance_tables.skipped_samples(run)],
        ),
    ]
    filled = [replace(s, tables=[table for table in s.tables if table.rows]) for s in every]
    return [section for section in filled if section.remarks or section.tables]
