"""Shows an answer as it is generated, and what it cost: a line, or a JSON object."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict
from time import perf_counter
from typing import Any

from mmspec.chat.answer import Answer, Stream
from mmspec.chat.chat import Chat
from mmspec.chat.engine import Engine
from mmspec.chat.session import Prefilled
from mmspec.checkpoints.cards import bundled_note
from mmspec.decoding.tree import Tree
from mmspec_cli.terminal.interrupt import Interrupt
from mmspec_terminal.render import Screen
from mmspec_terminal.wording import quantity

FASTER = 1.05
"""The least ratio to plain decoding that the short line under an answer calls faster."""

MUCH = 0.5
"""The share of the context from which on the short line says how much is used."""


def introduction(engine: Engine) -> list[str]:
    """The engine's notes and, for the bundled model, its abilities and limits."""
    note = bundled_note(engine.target.name)
    return [*engine.notes, f"{engine.target.name}: {note}"] if note else engine.notes


def stream(answering: Stream, screen: Screen, interrupt: Interrupt) -> float | None:
    """Write an answer's text as it is generated, until its end or Ctrl-C; none in JSON mode.

    The first Ctrl-C ends the answer after the current round, a second one at once; later ones are
    ignored.  Returns the seconds to the first piece, None without one.
    """
    start = perf_counter()
    first_token = None
    screen.progress("looking")
    try:
        with suppress(KeyboardInterrupt), answering:
            for item in answering:
                if isinstance(item, Prefilled):
                    screen.progress(f"reading {item.done} of {item.total} tokens")
                else:
                    if first_token is None:
                        first_token = perf_counter() - start
                    if not screen.as_json:
                        screen.piece(item)
                if interrupt.is_requested:
                    break
            interrupt.is_settled = True
    finally:
        screen.end_line()  # also after an error or SIGTERM, so that no word is lost
    return first_token


def remarks(answer: Answer, *, details: bool) -> list[str]:
    """The notes to show; without details not why decoding was plain, which /stats shows."""
    return [note for note in answer.notes if details or note != answer.plain_reason]


def ending(chat: Chat, texts: Mapping[str, str]) -> list[str]:
    """The remark on how the last answer ended, if there is one: 'full' is of a full context."""
    tokens, reason = len(chat.answer.token_ids), chat.answer.finish_reason
    if reason == "length" and tokens < chat.options.max_new_tokens:
        reason = "full"
    return [texts[reason].format(tokens)] if reason in texts else []


def short_footer(answer: Answer, first_token: float | None, context: int) -> str:
    """The line under an answer for people who chat: tokens, speed, seconds, the gain of drafting.

    It says whether lookup made most of the gain, which drafts an answer to a repeated question
    almost whole, and how much of the context is used if it is much.  first_token: as for `footer`.
    """
    statistics, gain = answer.statistics, answer.speed_up
    speed = statistics.tokens_per_second
    parts = [f"{quantity(statistics.tokens, 'token')}, {speed:.{0 if speed >= 10 else 1}f}/s"]
    if first_token is not None:
        parts.append(f"first after {first_token:.1f} s")
    parts.append(f"{statistics.seconds['total']:.1f} s in all")
    if gain is not None:
        repeats = ", repeating earlier text" * (2 * statistics.lookup_rounds > statistics.rounds)
        faster = f"{gain:.1f} × faster{repeats}"  # noqa: RUF001
        parts.append(faster if gain >= FASTER else "no faster")
    share = (statistics.prompt_tokens + statistics.tokens) / context
    if share > MUCH:
        parts.append(f"{share:.0%} of the context used")
    return " · ".join(parts)


def footer(chat: Chat, first_token: float | None, *, details: bool) -> str:
    """The line under a chat's last answer, short or with details.

    first_token: seconds from the question to the first text; None if there was none.
    """
    if not details:
        context = chat.models.target.model.config.text.max_position_embeddings
        return short_footer(chat.answer, first_token, context)
    statistics = chat.answer.statistics
    parts = [f"{statistics.tokens} tokens, {statistics.tokens_per_second:.1f}/s"]
    if first_token is not None:
        seconds = statistics.seconds
        stages = [stage for stage in ("vision", "caption") if seconds[stage]]
        times = [f"{stage} {seconds[stage]:.2f}" for stage in (*stages, "prefill")]
        parts.append(f"first after {first_token:.2f} s ({', '.join(times)})")
    efficiency, rate = statistics.block_efficiency, statistics.acceptance_rate
    drafting = f"{efficiency:.2f} tokens/round, {rate:.0%} accepted"
    reuse, size = statistics.cached_tokens, statistics.peak_memory_bytes
    parts += [
        drafting if statistics.drafted else "no drafting",
        f"prompt {reuse} cached + {statistics.prompt_tokens - reuse} new",
        f"peak {size / 1e9:.2f} GB" if size >= 1e9 else f"peak {size / 1e6:.0f} MB",
    ]
    return " · ".join(parts)


def stats_report(chat: Chat) -> dict[str, Any]:
    """The drafting and costs of the last answer, as `/stats` prints them."""
    answer = chat.answer
    return {
        "drafting": answer.drafting.spec,
        "weights": [round(weight, 6) for weight in answer.weights],
        "gamma": chat.options.gamma,
        "speed_up": answer.speed_up,
        "plain_estimate": answer.plain_estimate,
        "plain_reason": answer.plain_reason,
        **chat.models.exact_fields(chat.options.exact),
        "stats": answer.statistics.as_dict(),
    }


def answer_report(chat: Chat) -> dict[str, Any]:
    """The last answer with its models and options."""
    models, answer = chat.models, chat.answer
    tree = chat.options.tree
    return {
        "text": answer.text,
        "token_ids": answer.token_ids,
        "prompt_tokens": answer.statistics.prompt_tokens,
        "finish_reason": answer.finish_reason,
        "model": models.target.name,
        "draft": models.drafts.name if models.drafts else None,
        "backend": models.backend.name,
        "device": models.target.model.device,
        "dtype": models.target.model.dtype,
        "quantize": models.target.model.quantize,
        **stats_report(chat),
        "adaptive": chat.options.adaptive,
        "tree": asdict(tree) if isinstance(tree, Tree) else tree,
        "notes": [*models.notes, *answer.notes],
    }
