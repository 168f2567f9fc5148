"""Shows an answer as it is generated, and a line with its cost."""

from collections.abc import Generator
from contextlib import closing, suppress
from time import perf_counter

from mmspec.chat.answer import Answer, Piece, Stream
from mmspec.chat.session import Prefilled
from mmspec.decoding.statistics import Statistics
from mmspec_cli.terminal.interrupt import Interrupt
from mmspec_terminal.render import Screen

Answering = Stream | Generator[Prefilled | Piece]

FASTER = 1.05
"""The least ratio to plain decoding that the short line under an answer calls faster."""


def stream(
    answering: Answering, screen: Screen, interrupt: Interrupt, *, silent: bool = False
) -> float | None:
    """Write an answer's text as it is generated, until its end or Ctrl-C.

    The first Ctrl-C ends the answer after the current round, a second one at once; later ones are
    ignored.  silent: write no text.  Returns the seconds to the first piece, None without one.
    """
    started = perf_counter()
    first = None
    screen.progress("looking")
    try:
        with suppress(KeyboardInterrupt), closing(answering):
            for item in answering:
                if isinstance(item, Prefilled):
                    screen.progress(f"reading {item.done} of {item.total} tokens")
                else:
                    if first is None:
                        first = perf_counter() - started
                    if not silent:
                        screen.piece(item)
                if interrupt.requested:
                    break
            interrupt.settled = True
    finally:
        screen.end_line()  # also after an error or SIGTERM, so that no word is lost
    return first


def remarks(answer: Answer, *, details: bool) -> list[str]:
    """The notes to show: without details not why nothing was drafted, which /stats tells."""
    return [note for note in answer.notes if details or note != answer.plain_reason]


def short_footer(answer: Answer) -> str:
    """The line under an answer for people who chat: the gain of drafting, tokens and seconds."""
    seconds, tokens = answer.statistics.seconds["decode"], answer.statistics.tokens
    cost = f"{tokens} token{'s' * (tokens != 1)} in {seconds:.1f} s"
    gain = answer.speed_up
    if gain is None:
        return cost
    return f"{gain:.1f} × faster · {cost}" if gain >= FASTER else f"no faster · {cost}"  # noqa: RUF001


def footer(statistics: Statistics, first_token: float | None) -> str:
    """The long line under an answer: its tokens and their speed, the time to the first token,
    tokens per round, prompt tokens and peak memory.

    first_token: seconds from the question to the first text; None if there was none.
    """
    parts = [
        f"{statistics.tokens} tokens, {statistics.tokens_per_second:.1f}/s",
        _first_token(statistics, first_token),
        _drafting(statistics),
        _prompt(statistics),
        f"peak {_memory(statistics.peak_memory_bytes)}",
    ]
    return " · ".join(part for part in parts if part)


def _first_token(statistics: Statistics, seconds: float | None) -> str:
    if seconds is None:
        return ""
    stages = [stage for stage in ("vision", "caption") if statistics.seconds[stage]]
    split = [f"{stage} {statistics.seconds[stage]:.2f}" for stage in (*stages, "prefill")]
    return f"first after {seconds:.2f} s ({', '.join(split)})"


def _drafting(statistics: Statistics) -> str:
    if not statistics.drafted:
        return "no drafting"
    return (
        f"{statistics.block_efficiency:.2f} tokens/round, {statistics.acceptance_rate:.0%} accepted"
    )


def _prompt(statistics: Statistics) -> str:
    new = statistics.prompt_tokens - statistics.cached_tokens
    return f"prompt {statistics.cached_tokens} cached + {new} new"


def _memory(size: int) -> str:
    return f"{size / 1e9:.2f} GB" if size >= 1e9 else f"{size / 1e6:.0f} MB"
