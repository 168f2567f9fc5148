"""No drafts while the target looks at its images: vision-aware skipping (ViSkip, MMSpec).

What a target reads off an image a small draft seldom guesses.  How much it looks is the share of
its last layer's attention that goes to image positions; the round after a long look is plain.

Shape letters: Q query heads, K key heads (Q a multiple of K), n rows fed, C columns, D head size.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from mmspec import maths
from mmspec.lengths import FixedLength
from mmspec.loop import Lengths
from mmspec.maths import Array
from mmspec.statistics import Round

THRESHOLD = 0.35
"""The share of attention from which the published method skips."""


@dataclass(slots=True, eq=False)
class Sight:
    """Where one forward of a target finds images, and how much it looked at them."""

    images: Sequence[tuple[int, int]]
    """The first column of each and the one after its last."""
    seen: Array = None
    """[n] the share of each row fed, on the device; left here by the last layer."""

    def look(self, xp: Any, queries: Array, keys: Array, mask: Array) -> None:
        """Take the last layer's queries and keys, as `share` does."""
        self.seen = share(xp, queries, keys, mask, self.images)


def share(
    xp: Any, queries: Array, keys: Array, mask: Array, images: Sequence[tuple[int, int]]
) -> Array:
    """The attention [n] that goes to image columns, summed over them, averaged over the heads.

    queries: [Q, n, D] and keys: [K, C, D], rotated, float32; consecutive query heads share a key
    head.  mask: [n, C], added to the scores.  images: as in `Sight`, one at least.
    """
    heads, rows, width = queries.shape
    grouped = xp.reshape(queries, (keys.shape[0], -1, width))
    scores = grouped @ xp.matrix_transpose(keys) / width**0.5
    attention = maths.softmax(xp, xp.reshape(scores, (heads, rows, -1)) + mask)
    return xp.mean(sum(xp.sum(attention[..., a:b], axis=-1) for a, b in images), axis=0)


@dataclass(slots=True)
class Skipping:
    """Lengths that another chooses, but none after a round that looked at an image."""

    lengths: Lengths
    threshold: float
    """The share of attention that counts as looking; with 0 any does."""
    _looks: bool = False

    def choose(self, limit: int) -> int:
        """0 where the last round looked, else what the other chooses."""
        return 0 if self._looks else self.lengths.choose(limit)

    def observe(self, round_: Round) -> None:
        """Take in where a round looked; where no image is seen nothing is skipped."""
        self._looks = 0 < round_.seen >= self.threshold
        self.lengths.observe(round_)


def skipping(gamma: int | Lengths, threshold: float | None) -> int | Lengths:
    """`gamma`, for one answer, with rounds skipped from `threshold` on; None skips none."""
    if threshold is None:
        return gamma
    return Skipping(FixedLength(gamma) if isinstance(gamma, int) else gamma, threshold)
