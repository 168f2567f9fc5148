"""Determinism and the split: what a seed means, and which contents are held out."""

import hashlib
import random
from collections.abc import Callable
from typing import Literal, Protocol, TypeVar

Split = Literal["train", "held-out"]
HELD_OUT_ONE_IN = 8
KEY_SEPARATOR = " / "


class Keyed(Protocol):
    """A content with a canonical key."""

    @property
    def key(self) -> str:
        """What the content is, whatever it looks like."""


K = TypeVar("K", bound=Keyed)


def generator(*parts: object) -> random.Random:
    """Make the random generator that belongs to `parts`, the same in every process."""
    digest = hashlib.sha256("/".join(map(str, parts)).encode()).digest()
    return random.Random(int.from_bytes(digest[:8], "big"))


def split_of(key: str) -> Split:
    """Say which split a content key belongs to."""
    digest = hashlib.sha256(key.encode()).digest()
    return "held-out" if int.from_bytes(digest, "big") % HELD_OUT_ONE_IN == 0 else "train"


def within(split: Split, make: Callable[[random.Random], K], rng: random.Random) -> K:
    """Make contents until one belongs to the split."""
    while split_of((content := make(rng)).key) != split:
        pass
    return content
