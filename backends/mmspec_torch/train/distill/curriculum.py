"""When a head is shown images: MSD's two stages (section 4.3 and its released code), and others."""

import random
from collections.abc import Callable
from typing import Literal

Kept = Literal["all", "text", "images"]
"""Which conversations are taken."""
EPOCHS = 40
"""Epochs of MSD's run, of which the first half sees text alone."""


def visual_share(epoch: int, epochs: int = EPOCHS) -> float:
    """Return the probability that a batch of an epoch (1, 2, ..., epochs) shows images.

    0 in the first half, then growing by equal steps, 1 in the last.
    """
    half = epochs // 2
    if epoch <= half:
        return 0.0
    return 1.0 if epoch >= epochs else (epoch - half) / (epochs - half)


def epoch_at(progress: float, epochs: int = EPOCHS) -> int:
    """Return the epoch that a share of the whole run, 0 to 1, falls into, counted from 1."""
    return min(epochs, 1 + int(progress * epochs))


SCHEDULES: dict[str, Callable[[float], float] | None] = {
    "mixed": None,
    "msd": lambda progress: visual_share(epoch_at(progress)),
    "text": lambda _: 0.0,
    "images": lambda _: 1.0,
}
"""The share of batches with images by progress; None takes the data as it comes."""


SHOWN: dict[str, tuple[Kept, ...]] = {
    "mixed": ("all",),
    "msd": ("text", "images"),
    "text": ("text",),
    "images": ("images",),
}
"""The conversations that each schedule needs some of."""


def coin(seed: int, step: int, share: float, purpose: str = "images") -> bool:
    """Toss for a step, the same in every run."""
    return random.Random(f"{seed}/{purpose}/{step}").random() < share
