"""`mmspec bench speed`: tokens per second of drafting methods, paired and interleaved."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import click

from mmspec.chat.engine import Engine
from mmspec.chat.options import Options
from mmspec.checkpoints.quantization import number_type
from mmspec.diagnostics.prompts import read_prompts, typed_prompts
from mmspec.diagnostics.provenance import provenance
from mmspec.drafters.views import PLAIN
from mmspec.ground.errors import UsageError
from mmspec_bench.commands.output import SMALLER, note_when_stopped, show_tables, split
from mmspec_bench.measure.speed import measure, time_answer
from mmspec_bench.measure.steadiness import watch
from mmspec_bench.measure.timing import Figures
from mmspec_bench.prompts import prompts_for
from mmspec_bench.table import Table
from mmspec_terminal.options import CAPTIONER, EXACT, JSON, LOADING, LONGEST, OUT, parse_gamma
from mmspec_terminal.render import Screen
from mmspec_terminal.setup import Setup, with_screen
from mmspec_terminal.wording import with_flags

VIEWS = "M,T,MT,MTC"
"""The draftings that are measured by default with a draft model."""
COLUMNS: dict[str, Callable[[Figures], str]] = {
    "method": lambda method: method.name,
    "tokens/s": lambda method: method.tokens_per_second.text(1),
    "times plain": lambda method: method.speed_up.text(2),
    "overall": lambda method: f"{method.speed_up_overall:.2f}",
    "tokens per round": lambda method: f"{method.tokens_per_round:.2f}",
    "accepted": lambda method: f"{method.acceptance_rate:.0%}",
    "same tokens": lambda method: "yes" if method.identical == method.answers else "NO",
}
NOTE = (
    "Medians [range]. Times plain: beside the plain answer of the same turn. Overall: all tokens "
    "by all seconds, times plain. Tokens per round: the target's own included. Accepted: of the "
    "drafted tokens. Same tokens: as plain decoding."
)
COUNT = click.IntRange(min=1)


@click.command()
@click.argument("images", nargs=-1, metavar="[IMAGE]...")
@click.option("-p", "--prompt", help="Asked about the images. Default: synthetic questions.")
@click.option("--prompts", type=Path, metavar="FILE", help="JSON lines, as for check.")
@click.option("--count", type=COUNT, default=6, help="Of the default prompts.")
@click.option(
    "--tasks", default="", show_default=False, metavar="LIST", help="Tasks of the synthetic world."
)
@LOADING
@CAPTIONER
@click.option("--drafting", metavar="LIST", help=f"Default: {VIEWS}, or a head's own.")
@click.option("--gammas", default="5,auto", metavar="LIST", help="Draft lengths of each drafting.")
@EXACT
@click.option("--repeats", type=COUNT, default=3, help="Runs of each prompt.")
@click.option("--max-new-tokens", default=96, help=LONGEST)
@with_screen(OUT, JSON)
def speed(
    screen: Screen,
    *,
    images: tuple[str, ...],
    prompt: str | None,
    prompts: Path | None,
    count: int,
    tasks: str,
    drafting: str | None,
    gammas: str,
    exact: str,
    repeats: int,
    max_new_tokens: int,
    **loading: Any,
) -> int:
    """Compare tokens per second, paired and interleaved: medians and ranges.

    Exit status: 0, or 1 if an answer differs from plain decoding's.
    """
    lengths = [Options(gamma=parse_gamma(gamma)).gamma for gamma in split(gammas) or [gammas]]
    texts = [prompt] if prompt else []
    own_prompts = typed_prompts(texts, images) + (read_prompts(prompts) if prompts else [])
    if own_prompts and tasks:
        raise UsageError("--tasks names kinds of the default questions: leave it out beside others")
    options = Options(max_new_tokens=max_new_tokens, exact=exact)
    engine = Setup(screen, loading, options).load()
    screen.note(*engine.notes)
    questions = own_prompts or prompts_for(engine.target.model.config, count, split(tasks))
    methods = {"plain": replace(options, drafting=PLAIN.spec, gamma=1)}
    draftings = engine.head.kind if engine.head else VIEWS if engine.drafts else ""
    for spec, gamma in product(split(drafting or draftings), lengths):
        if spec != PLAIN.spec:
            methods[f"{spec} gamma {gamma}"] = replace(options, drafting=spec, gamma=gamma)
    for method in methods.values():
        engine.chat(method)  # refuses what these models cannot do before anything is measured
    disturbance = watch(engine.target.model.device)
    answers = {name: partial(time_answer, engine, method) for name, method in methods.items()}
    figures: list[Figures] = []
    note = f"shown are the turns that all methods answered, nothing is written; {SMALLER}"
    try:
        with note_when_stopped(screen, note):
            for latest in measure(answers, questions, repeats, screen.progress):
                figures = latest
    finally:
        if figures:
            counts = len(questions), repeats
            _show(screen, engine, exact, figures, counts, with_flags(disturbance()))
    return int(any(method.identical < method.answers for method in figures))


def _show(
    screen: Screen,
    engine: Engine,
    exact: str,
    figures: Sequence[Figures],
    counts: tuple[int, int],
    problem: str,
) -> None:
    """Show the figures; counts: of prompts and repeats.  problem: why the times may be wrong."""
    model, (prompts, repeats) = engine.target.model, counts
    report = {
        "model": engine.target.name,
        "draft": engine.drafts.name if engine.drafts else None,
        "device": model.device,
        "dtype": model.dtype,
        "quantize": model.quantize,
        "prompts": prompts,
        "repeats": repeats,
        "methods": [asdict(method) for method in figures],
        "provenance": provenance([engine.backend]),
        "problem": problem,
        **engine.exact_fields(exact),
    }
    peak, count = max(method.peak_memory_bytes for method in figures), figures[0].answers
    title = (
        f"{engine.target.name} on {model.device}, {number_type(model.dtype, model.quantize)}: "
        f"{'exact' if report['exact'] else 'not exact'}; {prompts} prompts x {repeats}"
        f"{f', {count} answered' if count < prompts * repeats else ''}; peak {peak // 2**20} MiB"
    )
    rows = [[cell(method) for cell in COLUMNS.values()] for method in figures]
    table = Table(title, [*COLUMNS], rows, f"{NOTE} {problem}".rstrip())
    show = partial(show_tables, screen, [table])
    if count == prompts * repeats:
        screen.report(report, show)
    elif not screen.as_json:
        show()
