"""`mmspec check --across`: tests whether several backends compute the same results."""

from collections.abc import Sequence
from pathlib import Path

from mmspec.chat.engine import Engine, load
from mmspec.chat.plugins import load_backend
from mmspec.checkpoints.cards import pair_of
from mmspec.checkpoints.config import read_config
from mmspec.checkpoints.hub import resolve
from mmspec.diagnostics.across import AcrossReport, StageDifference, across
from mmspec.diagnostics.prompts import Prompt
from mmspec.drafters.views import PLAIN
from mmspec_bench.prompts import prompts_for
from mmspec_terminal.render import Screen
from mmspec_terminal.setup import Setup
from mmspec_terminal.wording import more

DEFAULT_PROMPTS = 4


def check_across(
    setup: Setup, prompts: Sequence[Prompt], backends: str, reference: str | None, *, stages: bool
) -> int:
    """Compare the backends named, with commas, on one checkpoint, in float32 by default."""
    screen, models = Screen(plain=setup.plain), dict(setup.models)
    names = [name.strip() for name in backends.split(",")]
    for name in names:
        load_backend(name)
    model, draft = models.pop("model"), models.pop("draft")
    model = "mini" if model == "auto" else model
    pair = (pair_of(model) if draft == "auto" else draft) or PLAIN.spec
    # The last backend finds the files in its own format, which the others read too.
    directory = resolve(model, names[-1])
    drafts = pair if pair == PLAIN.spec else str(resolve(pair, names[-1]))
    models["dtype"] = "float32" if models["dtype"] == "auto" else models["dtype"]

    def loaded(backend: str, path: Path) -> Engine:
        where = models | {"backend": backend}
        return load(str(path), drafts, **where, progress=screen.progress)

    screen.progress("comparing")
    report = across(
        loaded,
        directory,
        names,
        prompts or prompts_for(read_config(directory), DEFAULT_PROMPTS),
        setup.options,
        stages=stages,
        reference=resolve(reference, names[0]) if reference else None,
    )
    if setup.as_json:
        screen.json(report.as_dict())
    else:
        _show(screen, report)
    return report.exit_code


def _show(screen: Screen, report: AcrossReport) -> None:
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


def _row(stage: StageDifference) -> tuple[str, ...]:
    if stage.largest is not None:
        numbers = f"{stage.largest:.2e}", f"{stage.relative:.2e}"
    elif stage.divergence:
        numbers = f"part at {stage.divergence.position}", f"gap {stage.divergence.gap:.2e}"
    else:
        numbers = "identical", ""
    verdict = "" if stage.passed is None else "ok" if stage.passed else "TOO FAR"
    return stage.prompt, stage.stage, *numbers, verdict
