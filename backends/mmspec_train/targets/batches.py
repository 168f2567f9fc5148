"""Batches for a target that learns to see, which the seed and their number determine."""

import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count, islice, pairwise

import numpy as np
from torch import Tensor

from mmspec.decoding.contract import Float32
from mmspec_train.data.record import ConversationRecord
from mmspec_train.run.machine import Item
from mmspec_world.split import Split

Drawn = tuple[ConversationRecord, list[Float32]]
"""A conversation, and the pixel values [3, height, width] of its images."""


def pools(
    make: Callable[[random.Random], Iterable[Item]], size: int, seed: int, split: Split, start: int
) -> Iterator[Item]:
    """Yield batches from number `start` on, made in pools of `size` from a pool's own numbers."""
    for pool in count(start // size):
        rng = random.Random(f"{seed}/{split}/{pool}")
        yield from islice(make(rng), max(0, start - pool * size), None)


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
