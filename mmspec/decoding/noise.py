"""The noise under which sampling is greedy decoding: a pure function of (seed, position, token).

Every position n of a sequence and every token v own one exponential variable E[n, v].  The token
with the least E[n, v] / p(v) is an exact draw from p, independent from position to position
(Gumbel-max sampling).  A draft that uses the same E mostly names the same token, and the text does
not depend on how it was drafted (Daliri, Musco and Suresh 2024, arXiv 2408.07978).

Shape letters: n positions, c tokens.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import log1p
from typing import Any

Array = Any

_64_BITS, _32_BITS = 2**64 - 1, 2**32 - 1
_BELOW_ONE = 1 - 2.0**-24
"""The largest float32 below 1: log(1 - w) must be finite."""


@dataclass(frozen=True, slots=True)
class Noise:
    """The noise of one round, for its next token and the positions after it."""

    seed: int
    position: int
    """The target's length before the round, which is the position of the next token.

    A drafter uses the target's position too, because its own prompt may be shorter. The token after
    a node at depth d of a draft stands d positions later.
    """

    def keys(self, count: int) -> list[tuple[int, int]]:
        """Keys [count, 2] of this and the next positions: an odd multiplier and an offset."""
        return [_key(self.seed, self.position + depth) for depth in range(count)]


NO_NOISE = Noise(seed=0, position=0)
"""Placeholder noise for greedy rounds, which never read it."""


@lru_cache(maxsize=1024)  # target, drafter and the next rounds ask for the same positions
def _key(seed: int, position: int) -> tuple[int, int]:
    bits = _mix(_mix(seed & _64_BITS) ^ position)
    return bits & _32_BITS | 1, bits >> 32


def _mix(bits: int) -> int:
    """`bits` after SplitMix64's step (Steele, Lea and Flood 2014), which mixes all bits."""
    bits = (bits + 0x9E3779B97F4A7C15) & _64_BITS
    bits = ((bits ^ (bits >> 30)) * 0xBF58476D1CE4E5B9) & _64_BITS
    bits = ((bits ^ (bits >> 27)) * 0x94D049BB133111EB) & _64_BITS
    return bits ^ (bits >> 31)


def exponentials(xp: Any, keys: Array, tokens: Array) -> Array:
    """The exponential variables E [n, c] for keys and tokens, float32, above zero.

    keys: [n, 2] from `Noise.keys`.  tokens: ids [c] or [n, c].  Both have one 32-bit integer type,
    signed or unsigned, whose products wrap around.
    """
    h = _hash(keys[:, :1] * tokens + keys[:, 1:])
    # w = (h + 0.5) / 2^32, rounded once: float32 holds each half of h exactly.
    high, low = (xp.astype(half, xp.float32) for half in ((h >> 16) & 0xFFFF, h & 0xFFFF))
    w = high * 2.0**-16 + (low + 0.5) * 2.0**-32
    # The small ones win and keep their relative precision; -log(1 - w) would lose it.
    return -xp.log1p(-xp.where(w < _BELOW_ONE, w, _BELOW_ONE))


def exponential(key: Sequence[int], token: int) -> float:
    """The variable of one token, not rounded to float32: for a few tokens faster than arrays are.

    key: [2], one of `Noise.keys`.
    """
    h = _hash((key[0] * token + key[1]) & _32_BITS) & _32_BITS
    return -log1p(-(h + 0.5) * 2.0**-32)


def _hash(x: Array) -> Array:
    """Two rounds of xorshift and multiplication: each bit of x flips half of the result's bits.

    The masks make shifts logical for signed integers, and for those of Python, whose 32 low bits
    are the result.
    """
    x = (x ^ ((x >> 16) & 0xFFFF)) * 0x21F0AAAD
    x = (x ^ ((x >> 15) & 0x1FFFF)) * 0x735A2D97
    return x ^ ((x >> 15) & 0x1FFFF)
