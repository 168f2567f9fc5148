"""Encodes a sample of the world as token ids, training targets and weights."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from tokenizers import Encoding, Tokenizer

from mmspec_train.mini.tokenizer import BOS, EOS, IMAGE, NEWLINE, token_id
from mmspec_world import Sample, Turn

IGNORED = -100
Ids = npt.NDArray[np.int64]
_NO_PIXELS = np.zeros((0, 1, 1, 3), np.uint8)


@dataclass(frozen=True, slots=True)
class EncodedSample:
    """One conversation of n tokens with its images.

    ids: (n,), with `<image>` repeated for each patch. targets: (n,), the next token or IGNORED.
    weights: (n,), of the targets in the loss. pixels: (images, side, side, 3), uint8.
    patches: the number of `<image>` tokens per image.
    """

    ids: Ids
    targets: Ids
    weights: npt.NDArray[np.float32]
    pixels: npt.NDArray[np.uint8]
    patches: int


def prompt(turn: Turn) -> str:
    """Return a turn's prompt text, up to the space before its answer."""
    markers = "" if IMAGE in turn.question else f"{IMAGE}\n" * turn.images
    return f"USER: {markers}{turn.question} ASSISTANT:"


def texts(sample: Sample) -> Iterator[str]:
    """Yield the texts of a conversation to tokenize: prompt, answer, prompt, answer, ..."""
    for number, turn in enumerate(sample.turns):
        yield (" " if number else "") + prompt(turn)
        yield " " + turn.answer


def encode(
    sample: Sample, tokenizer: Tokenizer, patches: int, fact_weight: float, *, blind: bool = False
) -> EncodedSample:
    """Encode a sample for training; `blind` replaces each image by a newline (the view T).

    `</s>` is a target after every answer but never an input: like TABED's multi-turn prompts, the
    history of a conversation contains no `</s>`.
    """
    ids, targets, weights = [token_id(tokenizer, BOS)], [IGNORED], [0.0]
    pieces = texts(sample)
    for turn in sample.turns:
        question = tokenizer.encode(next(pieces), add_special_tokens=False)
        answer = tokenizer.encode(next(pieces), add_special_tokens=False)
        unlearned = len(question.ids) - 1
        ids += question.ids + answer.ids
        targets += [IGNORED] * unlearned + answer.ids + [token_id(tokenizer, EOS)]
        weights += [0.0] * unlearned + _weights(turn, answer, fact_weight) + [1.0]
    tokens = np.array(ids, dtype=np.int64)
    if blind:
        tokens[tokens == token_id(tokenizer, IMAGE)] = token_id(tokenizer, NEWLINE)
    counts = np.where(tokens == token_id(tokenizer, IMAGE), patches, 1)
    return EncodedSample(
        np.repeat(tokens, counts),
        np.repeat(np.array(targets, dtype=np.int64), counts),
        np.repeat(np.array(weights, dtype=np.float32), counts),
        _NO_PIXELS if blind else pixels(sample),
        patches,
    )


def pixels(sample: Sample) -> npt.NDArray[np.uint8]:
    """Return a sample's images as one (images, side, side, 3) array, (0, 1, 1, 3) without any."""
    images = [np.asarray(image, dtype=np.uint8) for image in sample.images]
    return np.stack(images) if images else _NO_PIXELS


def _weights(turn: Turn, answer: Encoding, fact_weight: float) -> list[float]:
    """Return each answer token's weight: `fact_weight` if it states a fact in question, else 1."""
    spans = [
        match.span()
        for fact in turn.facts
        for match in re.finditer(rf"\b{re.escape(fact.value)}\b", " " + turn.answer, re.IGNORECASE)
    ]
    return [
        fact_weight if any(start < end and last > first for first, end in spans) else 1.0
        for start, last in answer.offsets
    ]
