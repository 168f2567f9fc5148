"""`mmspec parity`: do the backends compute the same?"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import click

from mmspec.bench.prompts import Prompt, default_prompts, read_prompts
from mmspec.engine import Engine, load
from mmspec.hub import resolve
from mmspec.options import Options
from mmspec.parity import Agreement, ParityReport, PromptParity
from mmspec.parity import parity as compare_all
from mmspec.registry import load_backend
from mmspec_cli.options import DEVICE, JSON, PLAIN
from mmspec_cli.render import Screen

DEFAULT_PROMPTS = 4


@click.command()
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
@click.option("--backends", default="torch,mlx", show_default=True, metavar="A,B")
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
@click.option("--max-new-tokens", type=int, default=48, show_default=True)
@JSON
@PLAIN
def parity(as_json: bool, plain: bool, max_new_tokens: int, **given: Any) -> int:
    """Compare pixels, vision features, projected features, prefill logits and tokens.

    Both backends read the same files. Exit status: 0 within the limits stated, 1 not.
    """
    screen = Screen(plain=plain)
    screen.progress("comparing")
    report = _report(Options(max_new_tokens=max_new_tokens), **given)
    if as_json:
        screen.json(report.as_dict())
    else:
        _show(screen, report)
    return report.exit_code


def _report(
    options: Options,
    *,
    model: str,
    draft: str,
    backends: str,
    prompts: Path | None,
    reference: str | None,
    device: str,
    dtype: str,
) -> ParityReport:
    names = [name.strip() for name in backends.split(",")]
    for name in names:
        load_backend(name)
    # The last backend finds the files in its own format, which the others read too.
    directory = resolve(_named(model), names[-1])
    pair = draft if draft == "none" else str(resolve(draft, names[-1]))
    original = resolve(reference, names[0]) if reference else None
    asked = read_prompts(prompts) if prompts else None

    def loaded(backend: str, where: Path) -> Engine:
        return load(str(where), pair, backend=backend, device=device, dtype=dtype)

    def chosen(engine: Engine) -> Sequence[Prompt]:
        return asked or default_prompts(engine, DEFAULT_PROMPTS)

    return compare_all(loaded, directory, names, chosen, options, reference=original)


def _named(model: str) -> str:
    return "mini" if model == "auto" else model


def _show(screen: Screen, report: ParityReport) -> None:
    columns = ("compared", "prompt", "stage", "largest", "relative", "")
    screen.table(columns, list(_rows(report)))
    verdict = "passed" if report.passed else "FAILED"
    screen.say(
        f"{verdict}: {report.model} in {report.dtype} (relative differences up to "
        f"{report.allowed:g}, tokens may part at a logit gap up to {report.near_tie:g})"
    )


def _rows(report: ParityReport) -> Iterator[tuple[str, ...]]:
    first = report.backends[0]
    for name, prompts in report.port.items():
        yield from _compared(f"port: {first}, {name}", prompts)
    yield from _compared("quantization", report.quantization or ())


def _compared(what: str, prompts: Sequence[PromptParity]) -> Iterator[tuple[str, ...]]:
    for each in prompts:
        for found in each.differences:
            verdict = "" if found.allowed is None else "ok" if found.passed else "TOO FAR"
            numbers = f"{found.largest:.2e}", f"{found.relative:.2e}"
            yield what, each.prompt, found.stage, *numbers, verdict
        for answer in each.answers:
            yield what, each.prompt, f"{answer.kind} tokens", *_told(answer)


def _told(answer: Agreement) -> tuple[str, str, str]:
    if answer.position is None:
        return f"{answer.compared} tokens", "", "identical"
    gap = "" if answer.gap is None else f"gap {answer.gap:.2e}"
    return f"part at {answer.position}", gap, "near-tie" if answer.near_tie else "different"
