"""Reads the body of a request to `/v1/chat/completions`."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from mmspec.chat.options import Options
from mmspec_server.fields import Fields

MOST_STOPS = 4
MOST_LOGPROBS = 20
MOST_TOKENS = 1_000_000
"""The largest `max_tokens` that can be asked for; an answer ends at the model's context."""

REFUSED = {
    "tools": "left out: no tools are called",
    "functions": "left out: no functions are called",
    "audio": "left out: answers are text",
    "logit_bias": "left out: it would change what the model says",
}
"""Fields that change the answer and cannot be obeyed, and what to do."""


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """The options of one answer."""

    options: Options
    stops: Sequence[str] = ()
    stream: bool = False
    include_usage: bool = False
    details: bool = False
    """True if the reply tells what was drafted, and all figures."""
    plain: bool = False
    """True if nothing is drafted."""


def read_chat_request(fields: Fields, defaults: Options) -> ChatRequest:
    """The options of a request; those that it does not name are the server's.

    Raises ApiError for values out of range and for what cannot be done.
    """
    refuse_unsupported(fields)
    stream, own = fields.flag("stream"), fields.block("mmspec")
    options = sampling_options(fields, defaults, _most_tokens(fields, defaults))
    return ChatRequest(
        replace(
            options, logprobs=likeliest(fields, "logprobs: true", wanted=fields.flag("logprobs"))
        ),
        _stops(fields),
        stream,
        stream and fields.block("stream_options").flag("include_usage"),
        own.flag("details"),
        own.flag("plain"),
    )


def refuse_unsupported(fields: Fields) -> None:
    """Raise ApiError for fields that would be ignored although the answer depends on them."""
    for name, allowed in REFUSED.items():
        if fields.get(name):
            raise fields.error(name, allowed)
    fields.integer("n", 1, 1, 1)
    for name in ("presence_penalty", "frequency_penalty"):
        fields.number(name, 0.0, 0.0, 0.0)
    kind = fields.block("response_format")
    if kind.get("type", "text") != "text":
        raise kind.error("type", "text: JSON schemas are not enforced")


def sampling_options(fields: Fields, defaults: Options, most_tokens: int) -> Options:
    """The server's options with a request's temperature, top_p, seed and length."""
    sampling = replace(
        defaults.sampling,
        temperature=fields.number("temperature", defaults.sampling.temperature, 0, 2),
        top_p=_top_p(fields, defaults),
    )
    seed = fields.integer("seed", defaults.seed, -(2**63), 2**64 - 1)
    return replace(defaults, sampling=sampling, seed=seed, max_new_tokens=most_tokens)


def _top_p(fields: Fields, defaults: Options) -> float:
    top_p = fields.number("top_p", defaults.sampling.top_p, 0, 1)
    if not top_p:
        raise fields.error("top_p", "a number above 0 and at most 1")
    return top_p


def _most_tokens(fields: Fields, defaults: Options) -> int:
    """`max_completion_tokens`, or its old name `max_tokens`."""
    older = fields.integer("max_tokens", defaults.max_new_tokens, 1, MOST_TOKENS)
    return fields.integer("max_completion_tokens", older, 1, MOST_TOKENS)


def likeliest(fields: Fields, switch: str, *, wanted: bool) -> int | None:
    """The number of likeliest tokens to report; None if no log-probabilities are wanted.

    switch: the field and value by which they are wanted.
    """
    count = fields.integer("top_logprobs", 0, 0, MOST_LOGPROBS)
    if count and not wanted:
        raise fields.error("top_logprobs", f"left out without {switch}")
    return count if wanted else None


def _stops(fields: Fields) -> list[str]:
    stops = fields.get("stop", [])
    stops = [stops] if isinstance(stops, str) else stops
    texts = isinstance(stops, list) and all(isinstance(stop, str) and stop for stop in stops)
    if not texts or len(stops) > MOST_STOPS:
        raise fields.error("stop", f"a string or a list of up to {MOST_STOPS}, none of them empty")
    return list(stops)
