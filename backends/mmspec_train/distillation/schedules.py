"""Schedules: which batches contain images. MSD's two stages follow its section 4.3 and its code."""

import random
from collections.abc import Callable
from dataclasses import dataclass

from mmspec_train.teacher.batch_source import Content

EPOCHS = 40
"""Number of epochs of MSD's run; the first half trains on text alone."""


def visual_share(epoch: int, epochs: int = EPOCHS) -> float:
    """Return the probability that a batch of an epoch (1, 2, ..., epochs) contains images.

    It is 0 in the first half, then grows by equal steps to 1 in the last epoch.
    """
    half = epochs // 2
    if epoch <= half:
        return 0.0
    return 1.0 if epoch >= epochs else (epoch - half) / (epochs - half)


def epoch_at(progress: float, epochs: int = EPOCHS) -> int:
    """Return the epoch, from 1, at `progress` (0 to 1) of the run."""
    return min(epochs, 1 + int(progress * epochs))


@dataclass(frozen=True, slots=True)
class Schedule:
    """Which conversations the batch of a step comes from."""

    contents: tuple[Content, ...]
    """The contents of the sources of batches, one source for each."""
    visual_share: Callable[[float], float] | None = None
    """Maps progress to the share of batches from the second source; None: use the first alone."""

    def picker(self, seed: int) -> Callable[[int, float], int]:
        """Return a function from step and progress to the index of a batch's source."""
        share = self.visual_share

        def pick(step: int, progress: float) -> int:
            return int(share is not None and coin(seed, step, share(progress), "images"))

        return pick


SCHEDULES = {
    "mixed": Schedule(("all",)),
    "msd": Schedule(("text", "images"), lambda progress: visual_share(epoch_at(progress))),
    "text": Schedule(("text",)),
    "images": Schedule(("images",)),
}


def coin(seed: int, step: int, share: float, purpose: str) -> bool:
    """Return True with probability `share`; the same in every run for the same arguments."""
    return random.Random(f"{seed}/{purpose}/{step}").random() < share
