"""`mmspec parity`: tests whether the backends compute the same results."""

from pathlib import Path
from typing import Any

import click

from mmspec.chat.engine import load
from mmspec.chat.options import Options
from mmspec.chat.plugins import load_backend
from mmspec.checkpoints.config import read_config
from mmspec.checkpoints.hub import resolve
from mmspec.diagnostics.parity import ParityReport, StageParity
from mmspec.diagnostics.parity import parity as compare_all
from mmspec.diagnostics.prompts import read_prompts
from mmspec_bench.prompts import prompts_for
from mmspec_terminal.help_pages import GroupedCommand
from mmspec_terminal.options import DEVICE, EXACT, JSON, LONGEST, PLAIN, THREADS
from mmspec_terminal.render import Screen
from mmspec_terminal.wording import more

DEFAULT_PROMPTS = 4


@click.command(cls=GroupedCommand)
@click.option(
    "--model", default="auto", metavar="NAME|REPO|DIR|auto", help="auto: mini, which is quick."
)
@click.option(
    "--draft",
    default="none",
    metavar="NAME|REPO|DIR|none",
    help="Compare speculative answers too.",
    show_default=True,
)
@click.option(
    "--backends", default="torch,mlx", show_default=True, metavar="A,B", help="Two, to compare."
)
@click.option(
    "--prompts", type=Path, metavar="FILE", help='Lines {"prompt": TEXT, "images": [FILE, ...]}.'
)
@click.option(
    "--reference",
    metavar="NAME|REPO|DIR",
    help="The float original of a quantized model: tells quantization error from port error.",
)
@DEVICE
@click.option("--dtype", default="float32", show_default=True, help="What both compute in.")
@THREADS
@click.option("--max-new-tokens", type=int, default=48, show_default=True, help=LONGEST)
@EXACT
@JSON
@PLAIN
def parity(
    *,
    model: str,
    draft: str,
    backends: str,
    prompts: Path | None,
    reference: str | None,
    device: str,
    dtype: str,
    threads: int | None,
    max_new_tokens: int,
    exact: str,
    as_json: bool,
    plain: bool,
) -> int:
    """Compare pixels, vision features, projected features, prefill logits and tokens.

    Both backends read the same files. Exit status: 0 if all differences are within the limits, else
    1.
    """
    screen = Screen(plain=plain)
    screen.progress("comparing")
    options = Options(gamma=5, max_new_tokens=max_new_tokens, exact=exact)
    names = [name.strip() for name in backends.split(",")]
    for name in names:
        load_backend(name)
    # The last backend finds the files in its own format, which the others read too.
    directory = resolve("mini" if model == "auto" else model, names[-1])
    pair = draft if draft == "none" else str(resolve(draft, names[-1]))
    original = resolve(reference, names[0]) if reference else None
    typed = read_prompts(prompts) if prompts else None
    where: dict[str, Any] = {"device": device, "dtype": dtype, "threads": threads}

    report = compare_all(
        lambda backend, path: load(
            str(path), pair, backend=backend, **where, progress=screen.progress
        ),
        directory,
        names,
        typed or prompts_for(read_config(directory), DEFAULT_PROMPTS),
        options,
        reference=original,
    )
    if as_json:
        screen.json(report.as_dict())
    else:
        _show(screen, report)
    return report.exit_code


def _show(screen: Screen, report: ParityReport) -> None:
    port = {f"port: {report.backends[0]}, {name}": each for name, each in report.port.items()}
    compared = port | {"quantization": report.quantization}
    rows = [(what, *_row(stage)) for what, stages in compared.items() for stage in stages]
    screen.table(("compared", "prompt", "stage", "largest", "relative", ""), rows)
    screen.say("Largest, relative: differences of a stage. " + more("measuring", "losslessness"))
    verdict = "passed" if report.passed else "FAILED"
    screen.say(
        f"{verdict}: {report.model} in {report.dtype} (relative differences up to "
        f"{report.allowed:g}, tokens may part at a logit gap up to {report.near_tie:g})"
    )


def _row(stage: StageParity) -> tuple[str, ...]:
    if stage.largest is not None:
        numbers = f"{stage.largest:.2e}", f"{stage.relative:.2e}"
    elif stage.divergence:
        numbers = f"part at {stage.divergence.position}", f"gap {stage.divergence.gap:.2e}"
    else:
        numbers = "identical", ""
    verdict = "" if stage.passed is None else "ok" if stage.passed else "TOO FAR"
    return stage.prompt, stage.stage, *numbers, verdict
