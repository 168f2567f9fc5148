"""Seeds of random generators, and the split of contents into training and held-out sets."""

import hashlib
import random
from collections.abc import Callable
from typing import Literal, Protocol, TypeVar

Split = Literal["train", "held-out"]
HELD_OUT_ONE_IN = 8
"""Number of contents of which one is held out from training."""
KEY_SEPARATOR = " / "


class Content(Protocol):
    """The content of one or more pictures, with a canonical key."""

    @property
    def key(self) -> str:
        """Canonical name of the content, the same for all its renderings."""


K = TypeVar("K", bound=Content)


def seed_of(*parts: object) -> int:
    """Return the seed of a random generator for `parts`, the same in every process."""
    digest = hashlib.sha256("/".join(map(str, parts)).encode()).digest()
    return int.from_bytes(digest[:8], "big")


def split_of(key: str) -> Split:
    """Return the split that a content key belongs to."""
    digest = hashlib.sha256(key.encode()).digest()
    return "held-out" if int.from_bytes(digest, "big") % HELD_OUT_ONE_IN == 0 else "train"


def draw_in_split(split: Split, make: Callable[[random.Random], K], rng: random.Random) -> K:
    """Return the first content from `make` that belongs to the split."""
    while split_of((content := make(rng)).key) != split:
        pass
    return content
