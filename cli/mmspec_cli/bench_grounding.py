"""`mmspec bench grounding`: answers judged by what was drawn."""

from pathlib import Path
from typing import Any

import click

from mmspec.bench.grounding import GroundingReport, held_out, markdown
from mmspec.bench.grounding import grounding as judge_facts
from mmspec.bench.provenance import provenance
from mmspec.options import Gamma, Options
from mmspec_cli.bench_output import loaded, tell
from mmspec_cli.options import GAMMA, JSON, LOADING, OUT, PLAIN
from mmspec_cli.render import Screen


@click.command()
@LOADING
@click.option(
    "--samples",
    type=click.IntRange(min=1),
    default=300,
    show_default=True,
    help="Conversations per category.",
)
@click.option("--blank", is_flag=True, help="Ask again with grey in place of every image.")
@GAMMA
@click.option("--max-new-tokens", default=160, show_default=True)
@click.option("--seed", default=0, show_default=True)
@OUT
@JSON
@PLAIN
def grounding(as_json: bool, plain: bool, out: Path | None, **given: Any) -> None:
    """Ask for facts about drawn pictures no model was trained on, and judge the answers."""
    screen = Screen(plain=plain)
    report = _grounding(screen, **given)
    shown = None if as_json else lambda: screen.say(markdown(report))
    tell(screen, report.as_dict(), out, shown)


def _grounding(
    screen: Screen,
    *,
    samples: int,
    blank: bool,
    gamma: Gamma,
    max_new_tokens: int,
    seed: int,
    **where: Any,
) -> GroundingReport:
    engine = loaded(screen, where)
    options = Options(gamma=gamma, max_new_tokens=max_new_tokens)
    make = held_out(engine)
    shown, blanked = (
        judge_facts(
            engine,
            make,
            options,
            samples=samples,
            seed=seed,
            blank=grey,
            progress=screen.progress,
        )
        if blank or not grey
        else None
        for grey in (False, True)
    )
    assert shown is not None
    origin = provenance([engine.backend])
    return GroundingReport(engine.target.name, seed, shown, blanked, origin)
