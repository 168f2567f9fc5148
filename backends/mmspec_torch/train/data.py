"""Batches of the drawn world, each a pure function of the seed and its index."""

import itertools
import multiprocessing
import os
import pickle
import random
import signal
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, Protocol, TypeVar

import numpy as np
import numpy.typing as npt
import torch
from PIL import Image
from tokenizers import Tokenizer
from torch import Tensor
from torch.utils.data import DataLoader, IterableDataset

from mmspec.bench.world import Sample
from mmspec.errors import MmspecError
from mmspec_torch.train import conversation
from mmspec_torch.train.conversation import IGNORED, Encoded
from mmspec_torch.train.recipe import Recipe
from mmspec_torch.train.tokenizer import PAD, token_id

# Samples of one pool are sorted by length and cut into this many batches, so padding is small.
BATCHES_PER_POOL = 8
Sampler = Callable[..., Sample]
Labeller = Callable[..., tuple[Image.Image, dict[str, npt.NDArray[np.int64]]]]
Item = TypeVar("Item", covariant=True)


class Source(Protocol[Item]):
    """Batches in a fixed order, to be entered anywhere."""

    def batches(self, start: int) -> Iterator[Item]:
        """Yield batches number `start`, `start` + 1, ..., without end."""


@dataclass(frozen=True, slots=True)
class Batch:
    """Conversations of different lengths, padded at their ends.

    ids, targets: (batch, length). weights: (learned,), of the targets that are not IGNORED, in
    row-major order. pixels: (images, side, side, 3), uint8. patches: (images,), tokens of each.
    """

    ids: Tensor
    targets: Tensor
    weights: Tensor
    pixels: Tensor
    patches: Tensor

    @property
    def samples(self) -> int:
        """Conversations in the batch."""
        return len(self.ids)

    @property
    def tokens(self) -> int:
        """Positions in the batch, padding included."""
        return self.ids.numel()


@dataclass(frozen=True, slots=True)
class LabelledBatch:
    """Pictures with every cell's truth: pixels (batch, side, side, 3), labels (batch, grid²)."""

    pixels: Tensor
    labels: dict[str, Tensor]

    @property
    def samples(self) -> int:
        """Pictures in the batch."""
        return len(self.pixels)

    @property
    def tokens(self) -> int:
        """Cells in the batch."""
        return self.labels["background"].numel()


@dataclass(frozen=True)
class Conversations:
    """Batches of encoded samples, tasks drawn by their shares.

    Samples of more than `most_images` are learned as text, a newline in place of each image; of
    the others a share of `pooled` has images of a quarter of the positions.
    """

    recipe: Recipe
    tokenizer_file: Path
    sampler: Sampler
    shares: dict[str, float]
    seed: int
    split: str = "train"
    most_images: int | None = None
    pooled: float = 0.0

    def batches(self, start: int) -> Iterator[Batch]:
        """Yield batches from number `start` on."""
        tokenizer = Tokenizer.from_file(str(self.tokenizer_file))
        pad = token_id(tokenizer, PAD)
        for pool in itertools.count(start // BATCHES_PER_POOL):
            batches = self._pool(pool, tokenizer)
            skipped = max(0, start - pool * BATCHES_PER_POOL)
            yield from (collate(batch, pad) for batch in batches[skipped:])

    def _pool(self, pool: int, tokenizer: Tokenizer) -> list[list[Encoded]]:
        """Cut enough samples for one pool into batches of like length, in random order."""
        rng = random.Random(f"{self.seed}/{self.split}/{pool}")
        samples: list[Encoded] = []
        wanted = BATCHES_PER_POOL * self.recipe.positions_per_batch
        while wanted > 0 or len(samples) < BATCHES_PER_POOL:
            samples.append(self._encoded(rng, tokenizer))
            wanted -= len(samples[-1].ids)
        batches = cut(sorted(samples, key=lambda sample: len(sample.ids)), BATCHES_PER_POOL)
        rng.shuffle(batches)
        return batches

    def _encoded(self, rng: random.Random, tokenizer: Tokenizer) -> Encoded:
        task = rng.choices(tuple(self.shares), tuple(self.shares.values()))[0]
        tower, weight = self.recipe.tower, self.recipe.fact_weight
        patches = tower.patches
        sample = self.sampler(task, rng.getrandbits(48), split=self.split, size=tower.image)
        blind = self.most_images is not None and len(sample.images) > self.most_images
        if self.pooled and rng.random() < self.pooled:
            patches //= 4
        return conversation.encode(sample, tokenizer, patches, weight, blind=blind)


@dataclass(frozen=True)
class Labelled:
    """Batches of pictures with per-cell labels."""

    recipe: Recipe
    labeller: Labeller
    seed: int
    split: str = "train"

    def batches(self, start: int) -> Iterator[LabelledBatch]:
        """Yield batches from number `start` on."""
        return (self._batch(number) for number in itertools.count(start))

    def _batch(self, number: int) -> LabelledBatch:
        rng = random.Random(f"{self.seed}/{self.split}/{number}")
        side, grid = self.recipe.tower.image, self.recipe.tower.grid
        drawn = [
            self.labeller(rng.getrandbits(48), split=self.split, size=side, grid=grid)
            for _ in range(self.recipe.images_per_batch)
        ]
        pixels = np.stack([np.asarray(image, dtype=np.uint8) for image, _ in drawn])
        labels = {
            name: torch.from_numpy(np.stack([truth[name].reshape(-1) for _, truth in drawn]))
            for name in drawn[0][1]
        }
        return LabelledBatch(torch.from_numpy(pixels), labels)


def cut(samples: list[Encoded], pieces: int) -> list[list[Encoded]]:
    """Cut a list into consecutive pieces of about equally many tokens, none of them empty."""
    ends = np.cumsum([len(sample.ids) for sample in samples])
    marks = [0]
    for piece in range(1, pieces):
        mark = int(ends.searchsorted(ends[-1] * piece / pieces))
        marks.append(min(max(mark, marks[-1] + 1), len(samples) - pieces + piece))
    return [samples[a:b] for a, b in itertools.pairwise([*marks, len(samples)])]


def collate(samples: list[Encoded], pad: int) -> Batch:
    """Pad conversations to the longest."""
    length = max(len(sample.ids) for sample in samples)
    ids = np.full((len(samples), length), pad, dtype=np.int64)
    targets = np.full((len(samples), length), IGNORED, dtype=np.int64)
    for row, sample in enumerate(samples):
        ids[row, : len(sample.ids)] = sample.ids
        targets[row, : len(sample.ids)] = sample.targets
    weights = np.concatenate([s.weights[s.targets != IGNORED] for s in samples])
    pixels = [sample.pixels for sample in samples]
    drawn = np.concatenate([each for each in pixels if len(each)] or pixels)
    patches = np.concatenate([np.full(len(s.pixels), s.patches) for s in samples])
    return Batch(*map(torch.from_numpy, (ids, targets, weights, drawn, patches)))


class _Stream(IterableDataset[bytes]):
    """Batches packed whole, and last the error that ended them.

    PyTorch would share each tensor by a handshake between the processes; a signal in the middle
    of one would make the other side print its traceback.
    """

    def __init__(self, source: Source[object], start: int) -> None:
        self.source, self.start = source, start

    def __iter__(self) -> Iterator[bytes]:
        try:
            yield from map(pickle.dumps, self.source.batches(self.start))
        except MmspecError as error:
            yield pickle.dumps(error)


def _end_with_parent(_: int) -> None:
    """End this process when the one that began it has, however that came about.

    One that waits for room in the queue would never learn that nobody reads it any more. A signal
    that the parent gets too is its to answer: an end of this process alone would be an error.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    parent = multiprocessing.parent_process()
    assert parent

    def follow() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=follow, daemon=True).start()


def ahead(
    source: Source[Item], start: int, workers: int = 1, prefetched: int = 2 * BATCHES_PER_POOL
) -> Iterator[Item]:
    """Yield a source's batches from `start` on, made in a process of their own.

    With `workers` 0 they are made here. More than one worker would change the order.
    Raises the MmspecError that making a batch raises, when it is that batch's turn.
    """
    if not workers:
        yield from source.batches(start)
        return
    loader = DataLoader(
        _Stream(source, start),
        batch_size=None,
        num_workers=1,
        prefetch_factor=prefetched,
        multiprocessing_context="spawn",
        worker_init_fn=_end_with_parent,
    )
    for packed in loader:
        batch = pickle.loads(packed)
        if isinstance(batch, MmspecError):
            raise batch
        yield batch


@dataclass(frozen=True)
class Share(Generic[Item]):
    """One process's share of a source's batches: every so manyth."""

    source: Source[Item]
    rank: int
    size: int

    def batches(self, start: int) -> Iterator[Item]:
        """Yield the process's batches from its number `start` on."""
        first = start * self.size + self.rank
        return itertools.islice(self.source.batches(first), 0, None, self.size)
