"""A sample as token ids: LLaVA's prompt, its answers, and which tokens are learned."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from tokenizers import Encoding, Tokenizer

from mmspec.bench.world import Sample, Turn
from mmspec_torch.train.tokenizer import BOS, EOS, IMAGE, NEWLINE, token_id

IGNORED = -100
Ids = npt.NDArray[np.int64]
_UNSEEN = np.zeros((0, 1, 1, 3), np.uint8)


@dataclass(frozen=True, slots=True)
class Encoded:
    """One conversation of n tokens with its images.

    ids: (n,), each `<image>` as often as it has patches. targets: (n,), the token to predict after
    each, or IGNORED. weights: (n,) of the targets. pixels: (images, side, side, 3), uint8.
    patches: `<image>` tokens of each image.
    """

    ids: Ids
    targets: Ids
    weights: npt.NDArray[np.float32]
    pixels: npt.NDArray[np.uint8]
    patches: int


def prompt(turn: Turn) -> str:
    """Return a turn's text up to its answer, which begins with a space."""
    markers = "" if IMAGE in turn.question else f"{IMAGE}\n" * turn.images
    return f"USER: {markers}{turn.question} ASSISTANT:"


def texts(sample: Sample) -> Iterator[str]:
    """Yield a conversation's prompts and answers in order, as the tokenizer is to see them."""
    for number, turn in enumerate(sample.turns):
        yield (" " if number else "") + prompt(turn)
        yield " " + turn.answer


def encode(
    sample: Sample, tokenizer: Tokenizer, patches: int, fact_weight: float, *, blind: bool = False
) -> Encoded:
    """Encode a sample for training; `blind`, with a newline in place of each image (the view T).

    `</s>` is learned after every answer but fed after none: the history of a conversation holds
    none, as in TABED's multi-turn prompts.
    """
    ids, targets, weights = [token_id(tokenizer, BOS)], [IGNORED], [0.0]
    pieces = texts(sample)
    for turn in sample.turns:
        asked = tokenizer.encode(next(pieces), add_special_tokens=False)
        answered = tokenizer.encode(next(pieces), add_special_tokens=False)
        unlearned = len(asked.ids) - 1
        ids += asked.ids + answered.ids
        targets += [IGNORED] * unlearned + answered.ids + [token_id(tokenizer, EOS)]
        weights += [0.0] * unlearned + _weights(turn, answered, fact_weight) + [1.0]
    shown = np.array(ids, dtype=np.int64)
    if blind:
        shown[shown == token_id(tokenizer, IMAGE)] = token_id(tokenizer, NEWLINE)
    counts = _counts(shown, tokenizer, patches)
    return Encoded(
        np.repeat(shown, counts),
        np.repeat(np.array(targets, dtype=np.int64), counts),
        np.repeat(np.array(weights, dtype=np.float32), counts),
        _UNSEEN if blind else pixels(sample),
        patches,
    )


def expanded(ids: Ids, tokenizer: Tokenizer, patches: int) -> Ids:
    """Return ids with every `<image>` repeated `patches` times."""
    return np.repeat(ids, _counts(ids, tokenizer, patches))


def pixels(sample: Sample) -> npt.NDArray[np.uint8]:
    """Return a sample's images as one (images, side, side, 3) array, (0, 1, 1, 3) without any."""
    drawn = [np.asarray(image, dtype=np.uint8) for image in sample.images]
    return np.stack(drawn) if drawn else _UNSEEN


def _counts(ids: Ids, tokenizer: Tokenizer, patches: int) -> Ids:
    return np.where(ids == token_id(tokenizer, IMAGE), patches, 1)


def _weights(turn: Turn, answered: Encoding, fact_weight: float) -> list[float]:
    """Weigh each token of the answer, those of asked values by `fact_weight`."""
    spans = [
        match.span()
        for fact in turn.facts
        for match in re.finditer(rf"\b{re.escape(fact.value)}\b", " " + turn.answer, re.IGNORECASE)
    ]
    return [
        fact_weight if any(start < end and last > first for first, end in spans) else 1.0
        for start, last in answered.offsets
    ]
