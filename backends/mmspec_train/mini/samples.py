"""Batches of the synthetic world. A batch depends only on the seed and its number."""

import itertools
import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from tokenizers import Tokenizer
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

import mmspec_world
from mmspec.prompt.tokenizer_files import read_backend
from mmspec_train.data.record import IGNORED
from mmspec_train.mini import conversation
from mmspec_train.mini.conversation import EncodedSample
from mmspec_train.mini.recipe import Recipe
from mmspec_train.mini.tokenizer import PAD, token_id
from mmspec_world.split import Split

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
    """Endless batches of encoded samples, with tasks drawn by their shares."""

    recipe: Recipe
    tokenizer_file: Path
    shares: dict[str, float]
    seed: int
    split: Split = "train"
    max_images: int | None = None
    """The most images of a sample; in a sample with more, newlines replace them. None: no limit."""
    pooled: float = 0.0
    """Share of samples whose images take a quarter of the positions."""

    def batches(self, start: int) -> Iterator[SampleBatch]:
        """Yield batches from number `start` on."""
        tokenizer = read_backend(self.tokenizer_file.parent)
        pad = token_id(tokenizer, PAD)
        for pool in itertools.count(start // SAMPLE_BATCHES_PER_POOL):
            batches = self._pool(pool, tokenizer)
            skipped = max(0, start - pool * SAMPLE_BATCHES_PER_POOL)
            yield from (collate_samples(batch, pad) for batch in batches[skipped:])

    def _pool(self, pool: int, tokenizer: Tokenizer) -> list[list[EncodedSample]]:
        """Return the batches of pool number `pool`, each of samples of similar length, shuffled."""
        rng = random.Random(f"{self.seed}/{self.split}/{pool}")
        samples: list[EncodedSample] = []
        missing = SAMPLE_BATCHES_PER_POOL * self.recipe.positions_per_batch
        while missing > 0 or len(samples) < SAMPLE_BATCHES_PER_POOL:
            samples.append(self._encoded(rng, tokenizer))
            missing -= len(samples[-1].ids)
        batches = cut(sorted(samples, key=lambda sample: len(sample.ids)), SAMPLE_BATCHES_PER_POOL)
        rng.shuffle(batches)
        return batches

    def _encoded(self, rng: random.Random, tokenizer: Tokenizer) -> EncodedSample:
        task = rng.choices(tuple(self.shares), tuple(self.shares.values()))[0]
        tower, weight = self.recipe.tower, self.recipe.fact_weight
        patches = tower.patches
        sample = mmspec_world.sample(task, rng.getrandbits(48), split=self.split, size=tower.image)
        blind = self.max_images is not None and len(sample.images) > self.max_images
        if self.pooled and rng.random() < self.pooled:
            patches //= 4
        return conversation.encode(sample, tokenizer, patches, weight, blind=blind)


@dataclass(frozen=True)
class LabelledPictures:
    """Endless batches of pictures with a label per cell."""

    recipe: Recipe
    seed: int
    split: Split = "train"

    def batches(self, start: int) -> Iterator[LabelledBatch]:
        """Yield batches from number `start` on."""
        return (self._batch(number) for number in itertools.count(start))

    def _batch(self, number: int) -> LabelledBatch:
        rng = random.Random(f"{self.seed}/{self.split}/{number}")
        side, grid = self.recipe.tower.image, self.recipe.tower.grid
        pictures = [
            mmspec_world.labelled_picture(
                rng.getrandbits(48), split=self.split, size=side, grid=grid
            )
            for _ in range(self.recipe.images_per_batch)
        ]
        pixels = np.stack([np.asarray(image, dtype=np.uint8) for image, _ in pictures])
        labels = [[cells[name].ravel() for _, cells in pictures] for name in mmspec_world.LABELS]
        return LabelledBatch(torch.from_numpy(pixels), torch.from_numpy(np.array(labels)))


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
