"""Samples of the world as token ids, in batches that the seed and their number determine."""

import itertools
import random
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from PIL.Image import Image
from tokenizers import Encoding, Tokenizer
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

import mmspec_world
from mmspec.ground.tokens import NO_TOKEN
from mmspec_train.data.record import IGNORED, ConversationRecord, lay_out
from mmspec_train.mini.recipe import Recipe
from mmspec_train.mini.tokenizer import BOS, EOS, IMAGE, NEWLINE, token_id
from mmspec_world import JudgedTurn, Sample
from mmspec_world.split import Split

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
    prompts = [tuple(NO_TOKEN if token == image else token for token in q.ids) for q in questions]
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
    return EncodedSample(ids, targets, weights, stacked(() if blind else sample.images), patches)


def stacked(images: Sequence[Image]) -> npt.NDArray[np.uint8]:
    """Return the pixels (images, side, side, 3) of square pictures of one size."""
    pixels = [np.asarray(image, dtype=np.uint8) for image in images]
    return np.stack(pixels) if pixels else _NO_PIXELS


def _weights(turn: JudgedTurn, answer: Encoding, fact_weight: float) -> list[float]:
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


SAMPLE_BATCHES_PER_POOL = 8
"""Number of batches whose samples are sorted by length together to save padding."""


@dataclass(frozen=True, slots=True)
class SampleBatch:
    """Batch of different lengths, padded at their ends.

    ids, targets: (batch, length). weights: (learned,), one per target that is not IGNORED, in
    row-major order. pixels: (images, side, side, 3), uint8. patches: (images,), tokens per image.
    """

    ids: Tensor
    targets: Tensor
    weights: Tensor
    pixels: Tensor
    patches: Tensor


@dataclass(frozen=True, slots=True)
class LabelledBatch:
    """Pictures, and what is in each cell of a grid over them: shape, colour and so on.

    pixels: (batch, side, side, 3). labels: (kinds, batch, grid²), a class index for each kind.
    """

    pixels: Tensor
    labels: Tensor


@dataclass(frozen=True)
class SampleBatches:
    """Endless batches of the samples that `draw` makes of random numbers."""

    draw: Callable[[random.Random], EncodedSample]
    pad: int
    positions: int
    """Number of tokens of a batch, without padding."""
    seed: int
    split: Split

    def batches(self, start: int) -> Iterator[SampleBatch]:
        """Yield batches from number `start` on."""
        for pool in itertools.count(start // SAMPLE_BATCHES_PER_POOL):
            batches = self._pool(pool)
            skipped = max(0, start - pool * SAMPLE_BATCHES_PER_POOL)
            yield from (collate_samples(batch, self.pad) for batch in batches[skipped:])

    def _pool(self, pool: int) -> list[list[EncodedSample]]:
        """Return the batches of pool number `pool`, each of samples of similar length, shuffled."""
        rng = random.Random(f"{self.seed}/{self.split}/{pool}")
        samples: list[EncodedSample] = []
        missing = SAMPLE_BATCHES_PER_POOL * self.positions
        while missing > 0 or len(samples) < SAMPLE_BATCHES_PER_POOL:
            samples.append(self.draw(rng))
            missing -= len(samples[-1].ids)
        batches = cut(sorted(samples, key=lambda sample: len(sample.ids)), SAMPLE_BATCHES_PER_POOL)
        rng.shuffle(batches)
        return batches


def draw_sample(
    recipe: Recipe,
    tokenizer: Tokenizer,
    shares: dict[str, float],
    split: Split,
    draft: bool,
    rng: random.Random,
) -> EncodedSample:
    """Draw a sample of the world, its task by the shares, for the target or for the draft."""
    task = rng.choices(tuple(shares), tuple(shares.values()))[0]
    size, patches = recipe.tower.image, recipe.tower.patches
    sample = mmspec_world.sample(task, rng.getrandbits(48), split=split, size=size)
    blind = draft and len(sample.images) > recipe.draft_images
    if draft and rng.random() < recipe.draft_pooled:
        patches //= 4
    return encode(sample, tokenizer, patches, recipe.fact_weight, blind=blind)


@dataclass(frozen=True)
class LabelledPictures:
    """Endless batches of pictures with a label per cell."""

    size: int
    grid: int
    count: int
    """Number of pictures in a batch."""
    seed: int
    split: Split = "train"

    def batches(self, start: int) -> Iterator[LabelledBatch]:
        """Yield batches from number `start` on."""
        sizes = {"size": self.size, "grid": self.grid}
        for number in itertools.count(start):
            rng = random.Random(f"{self.seed}/{self.split}/{number}")
            pictures = [
                mmspec_world.labelled_picture(rng.getrandbits(48), split=self.split, **sizes)
                for _ in range(self.count)
            ]
            pixels = np.stack([np.asarray(image, dtype=np.uint8) for image, _ in pictures])
            kinds = [[cells[name].ravel() for _, cells in pictures] for name in mmspec_world.LABELS]
            yield LabelledBatch(torch.from_numpy(pixels), torch.from_numpy(np.array(kinds)))


def cut(samples: list[EncodedSample], pieces: int) -> list[list[EncodedSample]]:
    """Cut a list into consecutive, non-empty pieces of about equally many tokens."""
    ends = np.cumsum([len(sample.ids) for sample in samples])
    cuts = [0]
    for piece in range(1, pieces):
        end = int(ends.searchsorted(ends[-1] * piece / pieces))
        cuts.append(min(max(end, cuts[-1] + 1), len(samples) - pieces + piece))
    return [samples[a:b] for a, b in itertools.pairwise([*cuts, len(samples)])]


def collate_samples(samples: list[EncodedSample], pad: int) -> SampleBatch:
    """Pad conversations to the longest and make one batch of them."""
    pixels = [sample.pixels for sample in samples]
    all_pixels = np.concatenate([images for images in pixels if len(images)] or pixels)
    return SampleBatch(
        pad_sequence([torch.tensor(s.ids) for s in samples], True, pad),
        pad_sequence([torch.tensor(s.targets) for s in samples], True, IGNORED),
        torch.tensor([weight for s in samples for weight in s.weights]),
        torch.from_numpy(all_pixels),
        torch.tensor([s.patches for s in samples for _ in s.pixels], dtype=torch.long),
    )
