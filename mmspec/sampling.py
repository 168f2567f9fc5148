"""How tokens are drawn, and the one door through which randomness enters."""

from dataclasses import dataclass

_MASK = 2**64 - 1


@dataclass(frozen=True, slots=True)
class Sampling:
    """Temperature, then top-k, then top-p, in transformers' order; temperature 0 is greedy."""

    temperature: float = 0.0
    top_k: int = 0
    """Keep the k most likely tokens; 0 keeps all."""
    top_p: float = 1.0
    """Keep the smallest set of likeliest tokens whose mass reaches top_p."""

    @property
    def greedy(self) -> bool:
        """Whether every token is the argmax."""
        return self.temperature == 0.0


GREEDY = Sampling()

ROLES = {"draft": 1, "accept": 2, "fallback": 3}


def uniform(seed: int, length: int, role: str, node: int) -> float:
    """A multiple of 2**-24 in [0, 1), exact in float32.

    Keyed by the committed length, the role ('draft', 'accept', 'fallback') and the node, so
    that another gamma or a skipped draft does not shift the draws that come after.
    """
    state = _mix(seed & _MASK)
    for word in (length, ROLES[role], node):
        state = _mix(state ^ word)
    return (state >> 40) / 2**24


def uniforms(seed: int, length: int, role: str, count: int) -> list[float]:
    """`uniform` for the nodes 0 to count - 1."""
    return [uniform(seed, length, role, node) for node in range(count)]


def _mix(word: int) -> int:
    """SplitMix64's step (Steele, Lea and Flood 2014): a bijection with full avalanche."""
    word = (word + 0x9E3779B97F4A7C15) & _MASK
    word = ((word ^ (word >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    word = ((word ^ (word >> 27)) * 0x94D049BB133111EB) & _MASK
    return word ^ (word >> 31)
