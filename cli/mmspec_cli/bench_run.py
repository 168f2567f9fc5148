"""`mmspec bench run`: a suite of samples, answered by several methods."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from mmspec.bench.suite.methods import PROBES, read_methods
from mmspec.bench.suite.metrics import ratio
from mmspec.bench.suite.prepare import Prepared, prepare
from mmspec.bench.suite.rows import PLAIN, PROVENANCE, ROWS, Row, read_rows
from mmspec.bench.suite.settings import Settings
from mmspec.bench.suite.sources import NAMES
from mmspec.bench.suite.summary import Summary, summarise
from mmspec.engine import Engine, load
from mmspec_cli.options import CAPTIONER, JSON, LOADING
from mmspec_cli.options import PLAIN as UNADORNED
from mmspec_cli.render import Screen

METHODS = "M,T,C,P,MT,MTC,MTCP,none"
COUNT = click.IntRange(min=1)


@click.command()
@click.option(
    "--suite",
    default="offline",
    show_default=True,
    metavar="NAME|NAME=DIR|PATH",
    help=f"Several with commas. Names: {', '.join(NAMES)}.",
)
@click.option("--tasks", default="", metavar="LIST", help="Only these of the suite's tasks.")
@click.option(
    "--methods",
    default=METHODS,
    show_default=True,
    metavar="LIST",
    help="Letters, perhaps with P's size, weights or an overflow rule (P36, MT:2,1, M/run); "
    "adaptive:LETTERS, tree:LETTERS (dynamic; tree20w5: 20 nodes, width 5; tree3x2x1: static), "
    "a head's kind, viskip: before any of these; ngram, none; none:blank, draft, draft:blank ask "
    "what a model knows.",
)
@click.option("--gamma", type=COUNT, default=5, show_default=True)
@click.option("--max-new-tokens", type=COUNT, default=128, show_default=True)
@click.option("--limit", type=COUNT, help="Samples of each task. Default: 100, as published.")
@click.option("--turns", type=COUNT, help="Of each conversation. Default: all.")
@click.option("--seed", default=0, show_default=True, help="Of the drawn samples.")
@click.option("--out", type=Path, required=True, metavar="DIR", help=f"Gets {ROWS}, {PROVENANCE}.")
@click.option("--resume", is_flag=True, help="Go on with the run in --out.")
@click.option("--shard", default="1/1", metavar="I/N", help="Every N-th sample from the I-th on.")
@click.option("--skip-bad", is_flag=True, help="Leave broken samples out, and name them.")
@LOADING
@CAPTIONER
@JSON
@UNADORNED
def run(as_json: bool, plain: bool, out: Path, resume: bool, skip_bad: bool, **given: Any) -> int:
    """Answer every sample of a suite by every method, and write a row for each answer.

    Exit status: 0, or 1 where an answer differs from plain decoding's by more than rounding.
    """
    screen = Screen(plain=plain)
    settings, where = _settings(given)
    prepared = prepare(
        _loaded(screen, where),
        settings,
        out,
        resume=resume,
        skipped=screen.note if skip_bad else None,
        progress=screen.progress,
    )
    _answer(screen, prepared, out)
    rows = read_rows(out / ROWS)
    summaries = _summaries(rows, settings.methods)
    if as_json:
        screen.json({"methods": [each.as_dict() for each in summaries]})
    else:
        _show(screen, summaries, out)
    return int(any(row.divergence and row.divergence["outcome"] == "bug" for row in rows))


def _settings(given: dict[str, Any]) -> tuple[Settings, dict[str, str]]:
    """What to ask, and what is left: what to load."""
    names = [method.name for method in read_methods(given.pop("methods"))]
    tasks = [task.strip() for task in given.pop("tasks").split(",") if task.strip()]
    asked = ("suite", "gamma", "max_new_tokens", "limit", "turns", "seed", "shard")
    taken = {name: given.pop(name) for name in asked}
    settings = Settings(
        methods=tuple(names), tasks=tuple(tasks), captioner=given["captioner"], **taken
    )
    return settings, given


def _loaded(screen: Screen, where: dict[str, Any]) -> Engine:
    screen.progress("loading")
    engine = load(**where)
    for note in engine.notes:
        screen.note(note)
    return engine


def _answer(screen: Screen, prepared: Prepared, out: Path) -> None:
    """Run to the end, showing the tokens per round of all drafting methods together so far."""
    tokens, rounds = _drafted(prepared.done)
    done = len({row.sample for row in prepared.done})
    try:
        with screen.bar(len(prepared.items), done=done) as advance:
            for rows in prepared.run():
                more = _drafted(rows)
                tokens, rounds = tokens + more[0], rounds + more[1]
                advance(f"{ratio(tokens, rounds):.2f} tokens per round")
    except KeyboardInterrupt:
        screen.note(f"stopped: what is done is in {out}; go on with --resume")
        raise


def _drafted(rows: Sequence[Row]) -> tuple[int, int]:
    """Tokens and rounds of the rows that were drafted."""
    drafted = [row for row in rows if row.drafted]
    return sum(row.emitted for row in drafted), sum(len(row.rounds) for row in drafted)


def _summaries(rows: Sequence[Row], methods: Sequence[str]) -> list[Summary]:
    by_method = {name: [row for row in rows if row.method == name] for name in methods}
    plain = by_method.get(PLAIN, [])
    return [summarise(found, plain) for found in by_method.values() if found]


def _show(screen: Screen, summaries: Sequence[Summary], out: Path) -> None:
    measures = ("tokens per round", "accepted", "times plain", "same tokens", "facts right")
    screen.table(("", "answers", *measures), [_line(each) for each in summaries])
    screen.say(f"{out / ROWS}")


def _line(each: Summary) -> tuple[str, ...]:
    """A method's measures; a probe's answers are other ones, so that its speed says nothing."""
    compared = each.speed_up_paired and each.method not in PROBES
    return (
        each.method,
        str(each.answers),
        f"{each.block_efficiency:.2f}",
        f"{each.acceptance_rate:.0%}",
        f"{each.speed_up_paired:.2f}" if compared else "",
        "" if each.identical is None else f"{each.identical:.1%}",
        f"{each.facts_right / each.facts_asked:.0%}" if each.facts_asked else "",
    )
