"""The vocabulary-sized formulas, written once for every backend.

Each function takes `xp`, a namespace that follows the Python array API standard (`numpy`,
`mlx.core`, `array_api_compat.torch`), and float32 arrays on the backend's device.

Axis names: R draft branches, k drafted tokens, n observed ones, G mixtures, V vocabulary, C the
likeliest tokens and one entry for all others.
"""

from collections.abc import Callable
from typing import Any

Array = Any  # whatever `xp` calls an array

Top = Callable[[Array, int], tuple[Array, Array]]
"""From [..., n] the `count` largest entries [..., count] and their indices; ties by index."""

MOST_TOKENS = 32
"""Number of the likeliest tokens whose probabilities enter a mixture's score one by one."""

FLOOR = 2.0**-30
"""Lower bound to which probabilities are raised before they are scored."""

TIE = 1e-5
"""Two mixtures of views tie if their scores differ by at most this much.

The difference of divergences is absolute, in nats per token; that of probabilities is relative.
"""


def softmax(xp: Any, logits: Array) -> Array:
    """Probabilities [..., V] from logits [..., V]."""
    exp = xp.exp(logits - xp.max(logits, axis=-1, keepdims=True))
    return exp / xp.sum(exp, axis=-1, keepdims=True)


def sigmoid(xp: Any, x: Array) -> Array:
    """1 / (1 + e^-x) of each number."""
    return 1 / (1 + xp.exp(-x))


def mix(weights: Array, q: Array) -> Array:
    """Average the branches' probabilities: weights [R], q [R, V] give [V].

    IbED, section 3.1: the mixture is of probabilities at temperature 1, not of logits.
    """
    return weights @ q


def nucleus_floor(xp: Any, p: Array, top_p: float) -> Array:
    """The least probability [..., 1] in the smallest set of likeliest tokens that sums to top_p.

    The likeliest token is always in the set, even if top_p underflows in the type of `p`.
    """
    descending = -xp.sort(-p, axis=-1)
    before = xp.cumulative_sum(descending, axis=-1) - descending
    inside = xp.where((before < top_p) | (before <= 0), descending, xp.ones_like(descending))
    return xp.min(inside, axis=-1, keepdims=True)


def ancestry(xp: Any, parents: Array, depth: int) -> Array:
    """Attention mask [n+1, n+1] of a root and n nodes: each sees itself and its ancestors.

    parents: [n], -1 for the root; depth: an upper bound on the levels.  The sum of a row is the
    node's depth plus one.
    """
    above = xp.concat([xp.zeros_like(parents[:1]), parents + 1], axis=0)
    index = xp.cumulative_sum(xp.ones_like(above), axis=0) - 1
    ancestors = index
    visible = xp.expand_dims(ancestors, axis=-1) == index
    for _ in range(depth):
        ancestors = xp.take(above, ancestors, axis=0)
        visible = visible | (xp.expand_dims(ancestors, axis=-1) == index)
    return visible


def condense(xp: Any, rows: Array, top: Top) -> Array:
    """Reduce distributions [n, rows, V] to [n, rows, C], the likeliest tokens and the remainder.

    C - 1 is the smaller of V and MOST_TOKENS.  Column 0 is the argmax of row 0. The next are the
    tokens with the largest probability in any row. The last is the sum of all others, so that each
    row remains a distribution.
    """
    n, count, vocabulary = rows.shape
    size = min(MOST_TOKENS, vocabulary)
    first, most = rows[:, 0, :], xp.max(rows, axis=1)
    most = xp.where(first >= xp.max(first, axis=-1, keepdims=True), 2.0, most)
    index = xp.broadcast_to(xp.expand_dims(top(most, size)[1], axis=1), (n, count, size))
    likeliest = xp.take_along_axis(rows, index, axis=-1)
    remainder = 1 - xp.sum(likeliest, axis=-1, keepdims=True)
    parts = xp.concat([likeliest, remainder], axis=-1)
    return xp.where(parts > FLOOR, parts, FLOOR)


def divergence(xp: Any, p: Array, q: Array) -> Array:
    """KL(p, q) in nats [n, G] of target p [n, C] and mixtures q [n, G, C], all above zero."""
    negentropy = xp.sum(p * xp.log(p), axis=-1, keepdims=True)
    return negentropy - (xp.log(q) @ xp.expand_dims(p, axis=-1))[..., 0]


def score(xp: Any, p: Array, q: Array, candidates: Array, top: Top) -> Array:
    """Score how well candidate mixtures predicted the target (TABED): [n, 2, G].

    p: [n, V] target; q: [n, R, V] branches; candidates: [G, R].  The first score is 1 if the
    mixture's argmax is the target's or nearly tied with it, else 0; the second is KL(p, mixture).
    """
    rows = condense(xp, xp.concat([xp.expand_dims(p, axis=1), q], axis=1), top)
    mixtures = candidates @ rows[:, 1:, :]
    most = (1 - TIE) * xp.max(mixtures[..., :-1], axis=-1)
    agreements = xp.where(mixtures[..., 0] >= most, xp.ones_like(most), xp.zeros_like(most))
    return xp.stack([agreements, divergence(xp, rows[:, 0, :], mixtures)], axis=1)
