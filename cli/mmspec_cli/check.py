"""`mmspec check`: tests whether decoding is lossless here, and alike on several backends."""

from collections.abc import Sequence
from pathlib import Path

import click

from mmspec.chat.engine import Engine, load
from mmspec.chat.plugins import load_backend
from mmspec.checkpoints.config import read_config
from mmspec.checkpoints.hub import resolve
from mmspec.checkpoints.quantization import number_type
from mmspec.diagnostics.across import AcrossReport, StageDifference, across
from mmspec.diagnostics.check import CheckReport, Divergence
from mmspec.diagnostics.check import check as compare_all
from mmspec.diagnostics.prompts import Prompt, read_prompts, typed_prompts
from mmspec.drafters.views import PLAIN
from mmspec_bench.commands.output import resolve_pair
from mmspec_bench.prompts import prompts_for
from mmspec_terminal.render import Screen
from mmspec_terminal.setup import Setup, shared_options

GAMMA = 5
"""Tokens drafted a round unless another number is named: `auto` may draft next to nothing."""

DEFAULT_PROMPTS, ACROSS_PROMPTS = 6, 4
"""Questions about synthetic pictures where none is given."""


@click.command()
@click.argument("images", nargs=-1, metavar="[IMAGE]...")
@click.option(
    "-p",
    "--prompt",
    "questions",
    multiple=True,
    metavar="TEXT",
    help="A question; may be given several times. Default: questions about synthetic pictures.",
)
@click.option(
    "--prompts",
    "prompt_file",
    type=Path,
    metavar="FILE",
    help='Lines {"prompt": TEXT, "images": [FILE, ...]}.',
)
@click.option(
    "--across",
    "backends",
    metavar="BACKEND,BACKEND...",
    help="Compare these backends, the first with every other, in float32 by default; --model auto "
    "is mini.",
)
@click.option(
    "--stages",
    is_flag=True,
    help="With --across: compare pixels, features and logits too, not answers alone.",
)
@click.option(
    "--reference",
    metavar="NAME|REPO|DIR",
    help="With --across: the float original of a quantized model, to tell quantization error from "
    "port error.",
)
@shared_options
def check(
    setup: Setup,
    images: tuple[str, ...],
    questions: tuple[str, ...],
    prompt_file: Path | None,
    backends: str | None,
    stages: bool,
    reference: str | None,
) -> int:
    """Decode plainly and speculatively and compare, token for token; or compare backends.

    Exit status: 0 identical, 3 if they differ only where rounding decides between two tokens, 1 a
    bug. With --across 0 if all differences are within the limits, else 1.
    """
    if (stages or reference) and not backends:
        raise click.UsageError("--stages and --reference compare backends: add --across torch,mlx")
    prompts = typed_prompts(questions, images, setup.sampling)
    prompts += read_prompts(prompt_file) if prompt_file else []
    if backends:
        return _check_across(setup, prompts, backends, reference, stages=stages)
    screen = setup.screen
    if (setup.options.drafting or setup.models["draft"]) == PLAIN.spec:
        raise click.UsageError(
            "check compares drafting with plain decoding: give a --draft, and no --drafting none"
        )
    engine = setup.load()
    screen.note(*([] if screen.as_json else engine.notes))
    screen.progress("decoding")
    prompts = prompts or prompts_for(engine.target.model.config, DEFAULT_PROMPTS)
    report = compare_all(engine, prompts, setup.options)
    screen.report(report.as_dict(), lambda: _show(screen, report))
    return report.exit_code


next(option for option in check.params if option.name == "gamma").default = GAMMA


def _show(screen: Screen, report: CheckReport) -> None:
    columns = ("prompt", "tokens", "drafted", "drafting", "tokens per round", "outcome")
    rows = [
        (
            *(row.prompt, str(row.tokens), str(row.drafted), row.drafting),
            *(f"{row.block_efficiency:.2f}", row.outcome),
        )
        for row in report.comparisons
    ]
    screen.table(columns, rows)
    screen.say("Outcome: of drafted against plain decoding.")
    for comparison in report.comparisons:
        if divergence := comparison.divergence:
            plain, speculative = map(repr, divergence.texts)
            screen.say(
                f"{comparison.prompt}: {comparison.outcome} at token {divergence.position}: plain "
                f"{plain} ({divergence.first}), speculative {speculative} ({divergence.second}), "
                f"top-2 logit gap {_gap(divergence, '.3g')}"
            )
        elif not comparison.drafted:
            screen.say(f"{comparison.prompt}: nothing was drafted, so nothing was checked")
        elif report.gamma == "auto" and 2 * comparison.drafted < comparison.tokens:
            screen.say(
                f"{comparison.prompt}: little was drafted, because --gamma auto drafts where that "
                f"is faster; --gamma {GAMMA} checks more"
            )
    kind = number_type(report.dtype, report.quantize)
    ties = f"near-tie up to a logit gap of {report.threshold:g}"
    threshold = "exact decoding has no near-ties" if report.exact else ties
    screen.say(f"{report.outcome} ({report.backend}, {report.device}, {kind}; {threshold})")


def _check_across(
    setup: Setup, prompts: Sequence[Prompt], backends: str, reference: str | None, *, stages: bool
) -> int:
    """Compare the backends named, with commas, on one checkpoint, in float32 by default."""
    screen, models = setup.screen, dict(setup.models)
    names = [name.strip() for name in backends.split(",")]
    for name in names:
        load_backend(name)
    # The last backend finds the files in its own format, which the others read too.
    _, directory, draft = resolve_pair(models.pop("model"), models.pop("draft"), names[-1])
    models["dtype"] = "float32" if models["dtype"] == "auto" else models["dtype"]

    def load_engine(backend: str, path: Path) -> Engine:
        options = models | {"backend": backend, "draft": str(draft or PLAIN.spec)}
        return load(path, **options, ready=False, progress=screen.progress)

    screen.progress("comparing")
    report = across(
        load_engine,
        directory,
        names,
        prompts or prompts_for(read_config(directory), ACROSS_PROMPTS),
        setup.options,
        stages=stages,
        reference=resolve(reference, names[0]) if reference else None,
    )
    screen.report(report.as_dict(), lambda: _show_across(screen, report))
    return report.exit_code


def _show_across(screen: Screen, report: AcrossReport) -> None:
    comparisons = {f"port: {report.backends[0]}, {name}": report.port[name] for name in report.port}
    comparisons["quantization"] = report.quantization
    rows = [(title, *_stage_row(stage)) for title in comparisons for stage in comparisons[title]]
    screen.table(("compared", "prompt", "stage", "largest", "relative", ""), rows)
    screen.say("Largest, relative: differences of a stage.")
    verdict = "passed" if report.passed else "FAILED"
    screen.say(
        f"{verdict}: {report.model} in {report.dtype} (relative differences up to "
        f"{report.allowed:g}, tokens may part at a logit gap up to {report.near_tie:g})"
    )


def _stage_row(stage: StageDifference) -> tuple[str, ...]:
    if stage.largest is not None:
        numbers = f"{stage.largest:.2e}", f"{stage.relative:.2e}"
    elif stage.divergence:
        numbers = f"part at {stage.divergence.position}", f"gap {_gap(stage.divergence, '.2e')}"
    else:
        numbers = "identical", ""
    verdict = "" if stage.passed is None else "ok" if stage.passed else "TOO FAR"
    return stage.prompt, stage.stage, *numbers, verdict


def _gap(divergence: Divergence, form: str) -> str:
    return "infinite" if divergence.gap is None else f"{divergence.gap:{form}}"
