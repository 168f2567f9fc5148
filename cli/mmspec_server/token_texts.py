"""Log-probabilities of tokens as the API writes them."""

from collections.abc import Collection, Iterable, Sequence
from typing import Any

from mmspec.decoding.likelihoods import Likelihood
from mmspec.prompt.tokenizer import Tokenizer

Entry = dict[str, Any]
"""A token's text, bytes and log-probability, and those of the likeliest tokens."""


def entries(
    likelihoods: Iterable[Likelihood], tokenizer: Tokenizer, stop: Collection[int]
) -> list[Entry]:
    """One entry for each token that has text; not for a stop token."""
    return [_entry(each, tokenizer) for each in likelihoods if each.token not in stop]


def within(answer: Sequence[Entry], length: int) -> list[Entry]:
    """The entries of tokens that begin within the first `length` characters."""
    beginning, at = [], 0
    for entry in answer:
        if at >= length:
            break
        beginning.append(entry)
        at += len(entry["token"])
    return beginning


def _entry(likelihood: Likelihood, tokenizer: Tokenizer) -> Entry:
    likeliest = [_one(token, value, tokenizer) for token, value in likelihood.likeliest]
    return {**_one(likelihood.token, likelihood.logprob, tokenizer), "top_logprobs": likeliest}


def _one(token: int, logprob: float, tokenizer: Tokenizer) -> Entry:
    text = _text(token, tokenizer)
    return {"token": text, "bytes": list(text.encode()), "logprob": logprob}


def _text(token: int, tokenizer: Tokenizer) -> str:
    """The text that a token adds to others; a decoder trims the start of a text."""
    before = [tokenizer.newline_id]
    return tokenizer.decode([*before, token])[len(tokenizer.decode(before)) :]
