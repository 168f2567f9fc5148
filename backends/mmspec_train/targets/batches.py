"""Batches for a target that learns to see, which the seed and their number determine."""

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count, pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor

import mmspec_world
from mmspec.decoding.contract import Float32
from mmspec.families.family import Preprocessing
from mmspec_train.data.batch import Batch, collate
from mmspec_train.data.record import ConversationRecord
from mmspec_world.split import Split

BATCHES_PER_POOL = 8
"""Number of batches whose conversations are sorted by length together to save padding."""
Drawn = tuple[ConversationRecord, list[Float32]]
"""A conversation, and the pixel values [3, height, width] of its images."""


@dataclass(frozen=True)
class DrawnBatches:
    """Endless batches of the conversations that `draw` makes of random numbers."""

    draw: Callable[[random.Random], Drawn]
    image_id: int
    vision: Any
    """The target's, a `LlavaVision`."""
    positions: int
    """Number of tokens of a batch, without padding."""
    seed: int
    split: Split

    def batches(self, start: int) -> Iterator[Batch]:
        """Yield batches from number `start` on."""
        for pool in count(start // BATCHES_PER_POOL):
            skipped = max(0, start - pool * BATCHES_PER_POOL)
            for batch in self._pool(pool)[skipped:]:
                records = [record for record, _ in batch]
                pixels = [image for _, images in batch for image in images]
                yield collate(records, pixels, (), self.image_id, self.vision)

    def _pool(self, pool: int) -> list[Sequence[Drawn]]:
        """Return the batches of pool number `pool`, each of similar lengths, shuffled."""
        rng = random.Random(f"{self.seed}/{self.split}/{pool}")
        drawn: list[Drawn] = []
        missing = BATCHES_PER_POOL * self.positions
        while missing > 0 or len(drawn) < BATCHES_PER_POOL:
            drawn.append(self.draw(rng))
            missing -= self._columns(drawn[-1])
        drawn.sort(key=self._columns)
        batches = cut(drawn, list(map(self._columns, drawn)), BATCHES_PER_POOL)
        rng.shuffle(batches)
        return batches

    def _columns(self, drawn: Drawn) -> int:
        return drawn[0].columns(drawn[0].visual(self.vision))


def cut(drawn: Sequence[Drawn], sizes: Sequence[int], pieces: int) -> list[Sequence[Drawn]]:
    """Cut a sequence into consecutive, non-empty pieces of about equally many tokens."""
    ends = np.cumsum(sizes)
    cuts = [0]
    for piece in range(1, pieces):
        end = int(ends.searchsorted(ends[-1] * piece / pieces))
        cuts.append(min(max(end, cuts[-1] + 1), len(drawn) - pieces + piece))
    return [drawn[a:b] for a, b in pairwise([*cuts, len(drawn)])]


@dataclass(frozen=True, slots=True)
class LabelledBatch:
    """Pictures, and what is in each cell of a grid over them: shape, colour and so on."""

    pixels: Tensor
    """[N, 3, height, width] pixel values."""
    labels: Tensor
    """[kinds, N, cells] a class index for each kind of label."""


@dataclass(frozen=True)
class LabelledPictures:
    """Endless batches of `count` pictures of the world with labels for each patch."""

    vision: Any
    """The target's, a `LlavaVision`."""
    images: Preprocessing
    count: int
    seed: int
    split: Split

    def batches(self, start: int) -> Iterator[LabelledBatch]:
        """Yield batches from number `start` on."""
        sizes = {"size": self.vision.image_size, "grid": self.vision.side}
        for number in count(start):
            rng = random.Random(f"{self.seed}/{self.split}/{number}")
            pictures = [
                mmspec_world.labelled_picture(rng.getrandbits(48), split=self.split, **sizes)
                for _ in range(self.count)
            ]
            pixels = np.stack([self.images.pixels(image) for image, _ in pictures])
            kinds = [[cells[name].ravel() for _, cells in pictures] for name in mmspec_world.LABELS]
            yield LabelledBatch(torch.from_numpy(pixels), torch.from_numpy(np.array(kinds)))
