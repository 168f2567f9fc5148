"""`mmspec bench run`: a suite of samples, answered by several methods."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from inspect import signature
from pathlib import Path
from typing import Any

import click

from mmspec.chat.engine import Engine, load
from mmspec.chat.plugins import load_backend
from mmspec.checkpoints.cards import pair_of
from mmspec.ground.errors import WriteError
from mmspec_bench.commands.output import note_when_stopped, show_tables, split
from mmspec_bench.measure.steadiness import watch
from mmspec_bench.report.bench_run import read_run
from mmspec_bench.report.tables import drafting
from mmspec_bench.suite.drafts import load_drafts
from mmspec_bench.suite.methods import read_methods
from mmspec_bench.suite.metrics import block_efficiency
from mmspec_bench.suite.replay import open_replay, refuse_settings
from mmspec_bench.suite.rows import PROVENANCE, ROWS
from mmspec_bench.suite.run_folder import SuiteSettings, update_provenance
from mmspec_bench.suite.runner import prepare
from mmspec_terminal import options
from mmspec_terminal.render import Screen
from mmspec_terminal.settings_options import choose, options_of
from mmspec_terminal.setup import with_screen
from mmspec_terminal.wording import with_flags

METHODS = "M,T,C,P,MT,MTC,MTCP,none"


@click.command()
@options_of(SuiteSettings)
@click.option("--tasks", default="", show_default=False, metavar="LIST", help="Only these tasks.")
@click.option(
    "--methods",
    default=METHODS,
    metavar="LIST",
    help="Letters, perhaps with P's size, weights or an overflow rule (P36, MT:2,1, M/run); "
    "adaptive:LETTERS, tree:LETTERS (dynamic; tree20w5: 20 nodes, width 5; tree3x2x1: static), "
    "adaptive:tree:LETTERS, a head's kind; any of these with +lookup; tree:lookup, lookup, none.",
)
@options.gamma_option(5)
@options.EXACT
@click.option("--memory", is_flag=True, default=None, help="Lookup reads earlier answers too.")
@click.option("--out", type=Path, required=True, metavar="DIR", help=f"Gets {ROWS}, {PROVENANCE}.")
@click.option("--resume", is_flag=True, help="Go on with the run in --out.")
@click.option("--skip-bad", is_flag=True, help="Leave broken samples out, and name them.")
@options.MODEL
@click.option(
    "--draft",
    "drafts",
    shell_complete=options.complete_draft,
    default=("auto",),
    multiple=True,
    metavar="NAME|REPO|DIR|none|auto",
    help="Draft model or head; may be repeated, so that several stand in one table. A method that "
    "two of them can do names its own: M@mini-draft. auto: the one that the target's card names.",
)
@options.DRAFT_TEXT
@options.PLACE
@options.CAPTIONER
@with_screen(options.JSON)
def run(
    screen: Screen, out: Path, resume: bool, skip_bad: bool, drafts: tuple[str, ...], **values: Any
) -> int:
    """Answer every sample of a suite by every method, and write a row for each answer.

    Exit status: 0, or 1 if an answer differs from plain decoding's by more than rounding.
    """
    settings = _settings(values)
    engines = _engines(screen, settings, drafts, values)
    runner, old_rows = prepare(
        engines,
        settings,
        out,
        resume=resume,
        note_omission=screen.note if skip_bad else None,
        progress=screen.progress,
    )
    drafted = [row for row in old_rows if row.drafted]
    answered = len({row.sample for row in old_rows})
    disturbance = watch("" if settings.target_answers else engines[0].target.model.device)
    try:
        with (
            note_when_stopped(screen, f"the rows so far are in {out}; go on with --resume"),
            screen.bar(len(runner.samples), start=answered) as advance,
        ):
            for rows in runner.run(old_rows):
                drafted += [row for row in rows if row.drafted]
                advance(f"{block_efficiency(drafted):.2f} tokens per round")
    finally:
        if problem := with_flags(disturbance()):
            screen.note(problem)
            with suppress(WriteError):  # a disk that is full has already been named
                update_provenance(out, problem=problem)
    bench_run = read_run(out)
    if screen.as_json:
        fields = {"problem": bench_run.problem} | engines[0].exact_fields(settings.exact)
        screen.json({"methods": bench_run.summaries} | fields)
    else:
        show_tables(screen, [drafting(bench_run.summaries)])
        screen.say(f"{out / ROWS}")
    return int(any(row.divergence and row.divergence["outcome"] == "bug" for row in bench_run.rows))


def _settings(values: dict[str, Any]) -> SuiteSettings:
    methods = tuple(method.name for method in read_methods(values["methods"]))
    lists = {"methods": methods, "tasks": tuple(split(values["tasks"]))}
    settings = choose(SuiteSettings, values | lists)
    if settings.target_answers and settings.exact == "auto":
        return replace(settings, exact="off")  # nothing is computed whose bits could differ
    return settings


def _engines(
    screen: Screen, settings: SuiteSettings, drafts: Sequence[str], values: dict[str, Any]
) -> list[Engine]:
    """Load every draft that --draft or a method names, and show the notes."""
    screen.progress("loading")
    method_drafts = [draft for name in settings.methods if (draft := name.partition("@")[2])]
    models = {name: values[name] for name in signature(load).parameters if name in values}
    models["progress"] = screen.progress
    if settings.target_answers:
        backend = load_backend(models["backend"]).name
        refuse_settings(settings, [*drafts, *method_drafts], backend)
        if not pair_of(models["model"]):  # auto would look for one in the target's weights
            drafts = ["none" if draft == "auto" else draft for draft in drafts]
        models["model"] = open_replay(models["model"], backend, models["max_image_tokens"])
    engines = load_drafts([*drafts, *method_drafts], models, settings.options)
    screen.note(*dict.fromkeys(note for engine in engines for note in engine.notes))
    return engines
