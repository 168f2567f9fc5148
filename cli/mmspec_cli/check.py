"""`mmspec check`: is speculative decoding lossless here?"""

import click

from mmspec.bench.prompts import asked, default_prompts
from mmspec.check import CheckReport, Comparison, require_comparable
from mmspec.check import check as compare_all
from mmspec.images import open_picture
from mmspec.quantization import computed
from mmspec_cli.options import Setup, shared_options
from mmspec_cli.render import Screen

DEFAULT_PROMPTS = 6


@click.command()
@click.argument("images", nargs=-1, metavar="[IMAGE]...")
@click.option(
    "--prompt",
    "prompts",
    multiple=True,
    metavar="TEXT",
    help="A question; may be given several times. Default: questions about drawn pictures.",
)
@shared_options
def check(setup: Setup, images: tuple[str, ...], prompts: tuple[str, ...]) -> int:
    """Decode plainly and speculatively and compare, token for token.

    Exit status: 0 identical, 3 they part where two tokens tie but for rounding, 1 a bug.
    """
    screen = Screen(plain=setup.plain)
    require_comparable(setup.options)
    if images and not prompts:
        raise click.UsageError("images need a question: give --prompt TEXT")
    if setup.draft == "none" and setup.options.drafting is None:
        raise click.UsageError("check needs a draft to compare with plain decoding: give --draft")
    pictures = [open_picture(image) for image in images]
    chosen = [asked(prompt, pictures) for prompt in prompts]
    screen.progress("loading")
    engine = setup.load()
    for note in () if setup.as_json else engine.notes:
        screen.note(note)
    screen.progress("decoding")
    report = compare_all(engine, chosen or default_prompts(engine, DEFAULT_PROMPTS), setup.options)
    if setup.as_json:
        screen.json(report.as_dict())
    else:
        _show(screen, report)
    return report.exit_code


def _show(screen: Screen, report: CheckReport) -> None:
    columns = ("prompt", "tokens", "drafted", "drafting", "tokens per round", "outcome")
    screen.table(columns, [_row(each) for each in report.comparisons])
    for each in report.comparisons:
        if each.divergence:
            screen.say(_told(each))
        elif not each.drafted:
            screen.say(f"{each.prompt}: nothing was drafted, so nothing was checked")
    kind = computed(report.dtype, report.quantize)
    screen.say(
        f"{report.outcome} ({report.backend}, {report.device}, {kind}; "
        f"near-tie up to a logit gap of {report.threshold:g})"
    )


def _row(each: Comparison) -> tuple[str, ...]:
    efficiency = f"{each.block_efficiency:.2f}"
    counts = str(each.tokens), str(each.drafted)
    return each.prompt, *counts, each.drafting, efficiency, each.outcome


def _told(each: Comparison) -> str:
    """Where the answers part, and by how little."""
    found = each.divergence
    assert found is not None
    return (
        f"{each.prompt}: {each.outcome} at token {found.position}: plain {found.texts[0]!r} "
        f"({found.first}), speculative {found.texts[1]!r} ({found.second}), "
        f"top-2 logit gap {found.gap:.3g}"
    )
