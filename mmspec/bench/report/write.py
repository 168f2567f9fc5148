"""The files of a report."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from mmspec.bench.report.coloured import page
from mmspec.bench.report.contents import plots, sections, summaries
from mmspec.bench.report.markdown import document
from mmspec.bench.report.merge import Run
from mmspec.bench.report.plots.style import Look, Plot, save
from mmspec.bench.report.published import Paper
from mmspec.bench.report.spreadsheet import sheets
from mmspec.bench.report.table import Section
from mmspec.bench.suite.summary import Summary
from mmspec.errors import MmspecError

REPORT, ANSWERS, FIGURES = "report.md", "samples.html", "figures"


@dataclass(frozen=True, slots=True)
class Report:
    """What was written, and what a terminal shows of it."""

    files: list[Path]
    summaries: list[Summary]
    sections: list[Section]
    missing: str = ""
    """Why there are no figures."""


def write(run: Run, papers: Sequence[Paper], folder: Path, samples: int = 1) -> Report:
    """Write Markdown, CSV, figures and coloured answers into a folder.

    samples: of each task, to colour.  Without matplotlib everything but figures is written.
    """
    every = summaries(run)
    missing = ""
    drawn: list[Plot] = []
    try:
        drawn = _draw(run, plots(run, papers), folder / FIGURES)
    except MmspecError as error:
        missing = str(error)
    found = sections(run, every, papers, drawn)
    texts = {
        REPORT: document("Benchmark report", found, {plot.name: plot for plot in drawn}),
        ANSWERS: page(run, samples),
        **sheets(run, every, papers),
    }
    files = [_write(folder / name, text) for name, text in texts.items()]
    files += [folder / FIGURES / f"{plot.name}.png" for plot in drawn]
    return Report(files, every, found, missing)


def _draw(run: Run, every: Sequence[Plot], folder: Path) -> list[Plot]:
    folder.mkdir(exist_ok=True)
    look = Look.of(run.compared)
    for plot in every:
        save(plot, look, folder)
    return list(every)


def _write(file: Path, text: str) -> Path:
    file.write_text(text, encoding="utf-8")
    return file
