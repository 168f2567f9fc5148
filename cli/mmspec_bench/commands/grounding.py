"""`mmspec bench grounding`: answers about pictures, judged against the pictures' content."""

from functools import partial
from typing import Any

import click

from mmspec.chat.options import Gamma, Options
from mmspec.diagnostics.provenance import provenance
from mmspec_bench.commands.output import Output, loaded, with_output
from mmspec_bench.measure.grounding import GroundingReport, held_out, markdown
from mmspec_bench.measure.grounding import grounding as judge_facts
from mmspec_terminal.help_pages import GroupedCommand
from mmspec_terminal.options import EXACT, LOADING, LONGEST, gamma_option


@click.command(cls=GroupedCommand)
@LOADING
@click.option(
    "--samples",
    type=click.IntRange(min=1),
    default=300,
    show_default=True,
    help="Conversations per category.",
)
@click.option("--blank", is_flag=True, help="Ask again with grey in place of every image.")
@gamma_option("auto")
@click.option("--max-new-tokens", default=160, show_default=True, help=LONGEST)
@click.option("--seed", default=0, show_default=True, help="First seed of samples.")
@EXACT
@with_output
def grounding(
    output: Output,
    *,
    samples: int,
    blank: bool,
    gamma: Gamma,
    max_new_tokens: int,
    seed: int,
    exact: str,
    **loading: Any,
) -> None:
    """Ask for facts about held-out pictures, and judge the answers."""
    options = Options(gamma=gamma, max_new_tokens=max_new_tokens, exact=exact)
    engine = loaded(output.screen, loading, options)
    score = partial(
        judge_facts,
        engine,
        held_out(engine),
        options,
        samples=samples,
        seed=seed,
        progress=output.screen.progress,
    )
    origin = provenance([engine.backend])
    blanked = score(blank=True) if blank else None
    fields = engine.exact_fields(exact)
    report = GroundingReport(engine.target.name, seed, score(), blanked, origin, **fields)
    output.report(report.as_dict(), partial(output.screen.say, markdown(report)))
