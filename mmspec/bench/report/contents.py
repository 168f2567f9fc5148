"""What a report holds, in its order: sections of tables, and the figures they show."""

from collections.abc import Sequence
from dataclasses import replace

from mmspec.bench.report import account, against, beside, drafting, faithful, origin, timing
from mmspec.bench.report.merge import Run
from mmspec.bench.report.plots.efficiency import Published, efficiency
from mmspec.bench.report.plots.latency import latency
from mmspec.bench.report.plots.overlap import overlap
from mmspec.bench.report.plots.progress import accepted, weights
from mmspec.bench.report.plots.stages import stages
from mmspec.bench.report.plots.style import Plot
from mmspec.bench.report.published import Paper
from mmspec.bench.report.table import Section, Table, several
from mmspec.bench.suite.summary import Summary, summarise


def summaries(run: Run) -> list[Summary]:
    """One for each method that was compared, over all rows."""
    return [summarise(run.of(name), run.plain, run.costs) for name in run.compared]


def plots(run: Run, papers: Sequence[Paper]) -> list[Plot]:
    """The figures for which the run has anything to show."""
    of_drafts = [efficiency(run, *_published(run, papers)), overlap(run), accepted(run)]
    return [
        *(of_drafts if run.drafting else ()),
        stages(run),
        *([latency(run)] if run.costs else ()),
        *(weights(run, name) for name in _adaptive(run)),
    ]


def _adaptive(run: Run) -> list[str]:
    return [name for name in run.drafting if any(row.weights for row in run.of(name))]


def _published(run: Run, papers: Sequence[Paper]) -> tuple[Published, str]:
    """Values of the first paper that has any of the run's datasets, for its figure."""
    for paper in papers:
        if values := beside.by_task(run, paper):
            return values, paper.title
    return {}, ""


def sections(
    run: Run, every: Sequence[Summary], papers: Sequence[Paper], drawn: Sequence[Plot]
) -> list[Section]:
    """All of them, with what there is to say in each; the figures are those in `drawn`."""
    fitted = [plot.name for plot in drawn if plot.name.startswith("weights-")]
    found = [
        Section("What was run", [_about(run), *run.notes]),
        _drafting(run, every),
        Section("Tokens that were right", (), ("overlap", "accepted")),
        Section("Adaptive weights", (), fitted),
        _time(run, every),
        account.section(run),
        _faithful(run),
        *(beside.section(run, paper) for paper in papers),
        Section("Settings", (), (), _there(origin.settings(run), origin.left_out(run))),
    ]
    names = {plot.name for plot in drawn}
    shown = [replace(each, figures=[f for f in each.figures if f in names]) for each in found]
    return [each for each in shown if each.remarks or each.figures or each.tables]


def _about(run: Run) -> str:
    questions = several(len({row.key for row in run.rows}), "question")
    tasks, ways = several(len(run.tasks), "task"), several(len(run.methods), "way")
    return f"{origin.title(run)}: {questions} of {tasks}, answered in {ways}."


def _there(*tables: Table | None) -> list[Table]:
    """Those that have anything in them."""
    return [table for table in tables if table and table.rows]


def _drafting(run: Run, every: Sequence[Summary]) -> Section:
    tables = _there(
        drafting.overview(every),
        drafting.by_images(run),
        *against.tables(run),
        drafting.by_task(run, later=False),
        drafting.by_task(run, later=True),
        drafting.by_position(every),
        origin.remarks(run),
    )
    return Section("Drafting", (), ("efficiency",), tables)


def _time(run: Run, every: Sequence[Summary]) -> Section:
    tables = _there(timing.speeds(every), timing.speed_ups(every), timing.stages(run))
    return Section("Time", (), ("stages", "latency"), tables)


def _faithful(run: Run) -> Section:
    compared = sum(row.identical is not None for row in run.rows)
    differing = faithful.divergences(run)
    remarks = []
    if not compared:
        remarks.append("No answer was compared with plain decoding.")
    elif not differing.rows:
        remarks.append(f"No answer differs from plain decoding's, of {compared} compared.")
    tables = _there(faithful.same_tokens(run), differing, faithful.facts(run))
    return Section("Answers", remarks, (), tables)
