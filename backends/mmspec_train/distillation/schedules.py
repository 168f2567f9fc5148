"""Schedules: which batches contain images. MSD's two stages follow its section 4.3 and its code."""

import random

from mmspec_train.teacher.batch_source import Content

EPOCHS = 40
"""Number of epochs of a run, as in MSD; the first half trains on text alone."""


def visual_share(epoch: int) -> float:
    """Return the probability that a batch of an epoch, from 1 to EPOCHS, contains images.

    It is 0 in the first half, then grows by equal steps to 1 in the last epoch.
    """
    half = EPOCHS // 2
    return max(0.0, (epoch - half) / (EPOCHS - half))


def epoch_at(progress: float) -> int:
    """Return the epoch, from 1, at `progress` (0 to 1) of the run."""
    return min(EPOCHS, 1 + int(progress * EPOCHS))


SCHEDULES: dict[str, tuple[Content, ...]] = {
    "mixed": ("all",),
    "msd": ("text", "images"),
    "text": ("text",),
    "images": ("images",),
}
"""For each schedule, which conversations its sources of batches contain."""


def pick_source(sources: int, seed: int, step: int, progress: float) -> int:
    """Return the index of the source of a step's batch: of two sources, 1 has the images."""
    share = visual_share(epoch_at(progress)) if sources > 1 else 0.0
    return int(coin(seed, step, share, "images"))


def coin(seed: int, step: int, share: float, purpose: str) -> bool:
    """Return True with probability `share`; the same in every run for the same arguments."""
    return random.Random(f"{seed}/{purpose}/{step}").random() < share
