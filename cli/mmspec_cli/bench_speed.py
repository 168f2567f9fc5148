"""`mmspec bench speed`: tokens per second, paired and interleaved."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from mmspec.bench.arms import Arm, BaselineArm, load_baseline
from mmspec.bench.prompts import ONE_IMAGE, Prompt, asked, drawn, read_prompts, written
from mmspec.bench.speed import GAMMAS, ArmResult, SpeedReport
from mmspec.bench.speed import speed as measure_speed
from mmspec.drafting import PLAIN as PLAINLY
from mmspec.drafting import UNLETTERED
from mmspec.engine import Engine, load
from mmspec.errors import UsageError
from mmspec.images import open_picture
from mmspec.options import Gamma, Options
from mmspec.quantization import computed
from mmspec_cli.bench_output import loaded, tell
from mmspec_cli.bench_synthetic import DIRECTORY, FITTING, SYNTHETIC, draw, require_alone, show
from mmspec_cli.bench_synthetic import synthetic as measure_synthetic
from mmspec_cli.options import JSON, LOADING, OUT, PLAIN
from mmspec_cli.render import Screen

VIEWS = "M,T,MT,MTC"
"""What `bench speed` measures of a draft model."""
COUNT = click.IntRange(min=1)


@click.command()
@click.argument("images", nargs=-1, metavar="[IMAGE]...")
@click.option("--prompt", help="Asked about the images given. Default: drawn pictures.")
@click.option("--prompts", type=Path, metavar="FILE", help="JSON lines, as for parity.")
@click.option("--count", type=COUNT, default=6, show_default=True, help="Drawn prompts.")
@click.option("--tasks", default="", metavar="LIST", help="Tasks of the drawn world.")
@LOADING
@click.option("--drafting", metavar="LIST", help=f"Default: {VIEWS}, or a head's own.")
@click.option(
    "--gammas",
    default="",
    metavar="LIST",
    help="One, or some to search, auto among them. Default: 1 to 8.",
)
@click.option("--repeats", type=COUNT, default=3, show_default=True)
@click.option("--max-new-tokens", default=96, show_default=True)
@click.option("--against", metavar="transformers", help="Another project's loop (torch only).")
@click.option("--against-backend", metavar="NAME", help="The same checkpoint there.")
@SYNTHETIC
@DIRECTORY
@OUT
@JSON
@PLAIN
@click.pass_context
def speed(
    context: click.Context,
    /,
    as_json: bool,
    plain: bool,
    out: Path | None,
    synthetic: str | None,
    synthetic_dir: Path | None,
    **given: Any,
) -> int:
    """Compare tokens per second, paired and interleaved: medians and ranges.

    Exit status: 0, or 1 where an answer differs from plain decoding's.
    """
    screen = Screen(plain=plain)
    if synthetic:
        require_alone(context)
        fitting = {option: given[option] for option in FITTING}
        costs = measure_synthetic(screen, synthetic, synthetic_dir, **fitting)
        tell(screen, costs.as_dict(), out, None if as_json else lambda: show(screen, costs))
        draw(screen, costs, out)
        return 0
    report = _speed(screen, **given)
    tell(screen, report.as_dict(), out, None if as_json else lambda: _show_speed(screen, report))
    return 0 if all(arm.identical for arm in report.arms) else 1


def _speed(
    screen: Screen,
    *,
    images: tuple[str, ...],
    prompt: str | None,
    prompts: Path | None,
    count: int,
    tasks: str,
    drafting: str | None,
    gammas: str,
    repeats: int,
    max_new_tokens: int,
    against: str | None,
    against_backend: str | None,
    **where: Any,
) -> SpeedReport:
    lengths = [_gamma(gamma) for gamma in _split(gammas)] or GAMMAS
    given = _given(images, prompt, prompts)
    engine = loaded(screen, where)
    options = Options(max_new_tokens=max_new_tokens)
    others = [load(**where | {"backend": against_backend})] if against_backend else []
    chosen = given or _drawn(engine, count, _split(tasks))
    return measure_speed(
        engine,
        chosen,
        options,
        words=_words(drafting, engine),
        gammas=lengths,
        repeats=repeats,
        others=others,
        baselines=[_baseline(against, engine, options)] if against else [],
        progress=screen.progress,
    )


def _split(text: str) -> list[str]:
    """Values separated by commas, each once."""
    return [*dict.fromkeys(part.strip() for part in text.split(",") if part.strip())]


def _words(drafting: str | None, engine: Engine) -> list[str]:
    """The draftings that are possible, without a draft those that need none, besides plain."""
    words = _split(drafting or (engine.head.kind if engine.head else VIEWS))
    able = [word for word in words if engine.drafts or word in UNLETTERED]
    return [word for word in able if word != PLAINLY.word]


def _gamma(text: str) -> Gamma:
    if text == "auto":
        return "auto"
    if not text.isdigit() or text == "0":
        raise UsageError(f"--gammas {text!r}: give numbers of at least 1, such as 2,4,6, or auto")
    return Options(gamma=int(text)).gamma


def _given(images: tuple[str, ...], prompt: str | None, prompts: Path | None) -> list[Prompt]:
    if prompts:
        return read_prompts(prompts)
    if images and not prompt:
        raise UsageError("images need a question: give --prompt TEXT")
    pictures = [open_picture(image) for image in images]
    return [asked(prompt, pictures)] if prompt else []


def _drawn(engine: Engine, count: int, tasks: list[str]) -> list[Prompt]:
    vision = engine.target.model.config.vision
    if vision is None:
        return written(count)
    return drawn(count, size=vision.image_size, tasks=tasks or ONE_IMAGE)


def _baseline(name: str, engine: Engine, options: Options) -> Arm:
    if engine.backend.name != "torch":
        raise UsageError(f"--against {name} runs on torch, not {engine.backend.name}")
    model = engine.target.model
    baseline = load_baseline(name, engine.target.directory, model.device, model.dtype)
    return BaselineArm(name, engine, options, baseline)


def _show_speed(screen: Screen, report: SpeedReport) -> None:
    columns = ("", "tokens/s", "times plain", "tokens per round", "accepted", "same tokens")
    screen.table(columns, [_arm_row(arm) for arm in report.arms])
    if report.costs:
        step = report.costs.target_step
        drafts = (f"{word} {s * 1e3:.2f} ms" for word, s in report.costs.draft_step.items())
        screen.say(f"target step {step * 1e3:.2f} ms; a drafted token: {', '.join(drafts)}")
        screen.say("; ".join(f"{name}: {r:.2f}" for name, r in report.costs.ratios.items()))
    if refit := report.refit:
        screen.say(
            f"fitting weights, {refit.drafting} gamma {refit.gamma}: {refit.refit * 1e3:.2f} ms "
            f"beside drafting {refit.draft * 1e3:.2f} ms and verifying {refit.verify * 1e3:.2f} ms "
            f"a round ({refit.share:.1%})"
        )
    for line in _host_lines(report):
        screen.say(line)
    screen.say(
        f"{report.prompts} prompts x {report.repeats}, medians [range]; {report.model} on "
        f"{report.device}, {computed(report.dtype, report.quantize)}; peak {_mebibytes(report)} MiB"
    )


def _arm_row(arm: ArmResult) -> tuple[str, ...]:
    return (
        arm.name,
        arm.tokens_per_second.text(1),
        arm.speed_up.text(2),
        f"{arm.block_efficiency:.2f}",
        f"{arm.acceptance_rate:.0%}",
        "yes" if arm.identical else "NO",
    )


def _host_lines(report: SpeedReport) -> Iterator[str]:
    for share in report.host:
        inside = "" if share.of_round is None else f", {share.of_round:.1%} outside model forwards"
        yield f"{share.drafting} gamma {share.gamma}: {share.of_loop:.1%} in the loop{inside}"


def _mebibytes(report: SpeedReport) -> int:
    return max(arm.peak_memory_bytes for arm in report.arms) // 2**20
