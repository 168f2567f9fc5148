"""Encodes a sample of the world as token ids, training targets and weights."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from tokenizers import Encoding, Tokenizer

from mmspec_train.data.record import PICTURE, ConversationRecord, lay_out
from mmspec_train.mini.tokenizer import BOS, EOS, IMAGE, NEWLINE, token_id
from mmspec_world import Sample, Turn

_NO_PIXELS = np.zeros((0, 1, 1, 3), np.uint8)


@dataclass(frozen=True, slots=True)
class EncodedSample:
    """One conversation of n tokens with its images.

    ids: n, with `<image>` repeated for each patch. targets: n, the next token or IGNORED.
    weights: one per target that is not IGNORED. pixels: (images, side, side, 3), uint8.
    patches: the number of `<image>` tokens per image.
    """

    ids: list[int]
    targets: list[int]
    weights: list[float]
    pixels: npt.NDArray[np.uint8]
    patches: int


def texts(sample: Sample) -> Iterator[str]:
    """Yield the texts of a conversation to tokenize: prompt, answer, prompt, answer, ..."""
    for number, turn in enumerate(sample.turns):
        markers = "" if IMAGE in turn.question else f"{IMAGE}\n" * turn.images
        yield f"{' ' if number else ''}USER: {markers}{turn.question} ASSISTANT:"
        yield " " + turn.answer


def encode(
    sample: Sample, tokenizer: Tokenizer, patches: int, fact_weight: float, *, blind: bool = False
) -> EncodedSample:
    """Encode a sample for training; `blind` replaces each image by a newline (the view T).

    `</s>` is a target after every answer but never an input: like TABED's multi-turn prompts, the
    history of a conversation contains no `</s>`.
    """
    bos, eos, image = (token_id(tokenizer, token) for token in (BOS, EOS, IMAGE))
    encoded = [tokenizer.encode(text, add_special_tokens=False) for text in texts(sample)]
    questions, answers = encoded[::2], encoded[1::2]
    prompts = [tuple(PICTURE if token == image else token for token in q.ids) for q in questions]
    record = ConversationRecord(
        0,
        ((bos, *prompts[0]), *prompts[1:]),
        tuple((*answer.ids, eos) for answer in answers),
        (True,) * len(answers),
    )
    weights = [
        weight
        for turn, answer in zip(sample.turns, answers, strict=True)
        for weight in (*_weights(turn, answer, fact_weight), 1.0)
    ]
    image_id = token_id(tokenizer, NEWLINE) if blind else image
    ids, targets, _ = lay_out(record, image_id, () if blind else [patches] * record.images)
    images = [] if blind else [np.asarray(image, dtype=np.uint8) for image in sample.images]
    return EncodedSample(ids, targets, weights, np.stack(images) if images else _NO_PIXELS, patches)


def _weights(turn: Turn, answer: Encoding, fact_weight: float) -> list[float]:
    """Return each answer token's weight: `fact_weight` if it states a fact asked for, else 1."""
    spans = [
        match.span()
        for fact in turn.facts
        for match in re.finditer(rf"\b{re.escape(fact.value)}\b", " " + turn.answer, re.IGNORECASE)
    ]
    return [
        fact_weight if any(start < end and last > first for first, end in spans) else 1.0
        for start, last in answer.offsets
    ]
