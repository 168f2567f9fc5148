"""The vocabulary-sized formulas, written once for every backend.

Each function takes `xp`, a namespace that follows the Python array API standard (`numpy`,
`mlx.core`, `array_api_compat.torch`), float32 arrays on the backend's device, and no randomness:
uniforms come in as `draws`.  Greedy decoding needs only an argmax and calls none of these.

Axis names: R draft branches, k drafted tokens, V vocabulary.
"""

from collections.abc import Callable
from typing import Any

from mmspec.sampling import Sampling

Array = Any  # whatever `xp` calls an array

Top = Callable[[Array, int], tuple[Array, Array]]
"""The largest entries [..., count] of an array [..., n] and where they are, of equals the first."""

BLOCK = 256

KEPT = 32
"""Tokens of a vocabulary that mixtures are scored on, one by one."""

FLOOR = 2.0**-30
"""The least probability that is scored."""

TIE = 1e-5
"""What rounding may decide: of a probability, relative; of a divergence, in nats per token."""


def softmax(xp: Any, logits: Array) -> Array:
    """Probabilities [..., V] of logits [..., V]."""
    exp = xp.exp(logits - xp.max(logits, axis=-1, keepdims=True))
    return exp / xp.sum(exp, axis=-1, keepdims=True)


def mix(xp: Any, weights: Array, q: Array) -> Array:
    """Average the branches' probabilities: weights [R], q [R, V] give [V].

    IbED, section 3.1: the mixture is of probabilities at temperature 1, not of logits.
    """
    return xp.matmul(weights, q)


def warp(xp: Any, p: Array, sampling: Sampling) -> Array:
    """Apply temperature (> 0), top-k and top-p to probabilities p [..., V]."""
    p = (p / xp.max(p, axis=-1, keepdims=True)) ** (1.0 / sampling.temperature)
    p = p / xp.sum(p, axis=-1, keepdims=True)
    if 0 < sampling.top_k < p.shape[-1]:
        p = _keep(xp, p, _descending(xp, p)[..., sampling.top_k - 1 : sampling.top_k])
    if sampling.top_p < 1.0:
        p = _keep(xp, p, _nucleus_floor(xp, p, sampling.top_p))
    return p


def _descending(xp: Any, p: Array) -> Array:
    return -xp.sort(-p, axis=-1)


def _keep(xp: Any, p: Array, floor: Array) -> Array:
    """Zero what is below `floor` [..., 1] and renormalise; ties at the floor stay."""
    kept = xp.where(p >= floor, p, xp.zeros_like(p))
    return kept / xp.sum(kept, axis=-1, keepdims=True)


def _nucleus_floor(xp: Any, p: Array, top_p: float) -> Array:
    """The least probability [..., 1] in the smallest set of top tokens that reaches top_p.

    The likeliest is in it, though top_p be too small for its type.
    """
    ordered = _descending(xp, p)
    before = xp.cumulative_sum(ordered, axis=-1) - ordered
    inside = xp.where((before < top_p) | (before <= 0), ordered, xp.ones_like(ordered))
    return xp.min(inside, axis=-1, keepdims=True)


def draw(xp: Any, p: Array, draws: Array) -> Array:
    """Sample one token per row of p [n, V] by inverting its CDF at draws [n].

    Sums in two levels: one float32 running sum over a whole vocabulary drifts by 1e-4, enough
    for two frameworks to pick different tokens.  Never returns a token of probability zero;
    p need not be normalised.
    """
    n, vocabulary = p.shape
    padding = xp.broadcast_to(xp.zeros_like(p[:, :1]), (n, -vocabulary % BLOCK))
    blocks = xp.reshape(xp.concat([p, padding], axis=1), (n, -1, BLOCK))
    masses = xp.sum(blocks, axis=-1)
    reached = xp.cumulative_sum(masses, axis=-1)
    aim = xp.expand_dims(draws, axis=-1) * reached[:, -1:]
    block = xp.expand_dims(_first(xp, reached > aim, masses), axis=-1)
    below = xp.take_along_axis(reached - masses, block, axis=1)
    inside = xp.take_along_axis(blocks, xp.expand_dims(block, axis=-1), axis=1)[:, 0, :]
    token = _first(xp, xp.cumulative_sum(inside, axis=-1) > aim - below, inside)
    return block[:, 0] * BLOCK + token


def _first(xp: Any, reached: Array, mass: Array) -> Array:
    """Index of the first entry reached that has mass; rounding past the end gives the last."""
    position = xp.cumulative_sum(xp.ones_like(mass), axis=-1)
    score = xp.where(reached, 3 * mass.shape[-1] - position, position)
    return xp.argmax(xp.where(mass > 0, score, xp.zeros_like(mass)), axis=-1)


def point_mass(xp: Any, tokens: Array, like: Array) -> Array:
    """The distributions [k, V] that hold `tokens` [k] and nothing else, shaped as `like`."""
    position = xp.cumulative_sum(xp.ones_like(like), axis=-1) - 1
    hit = position == xp.expand_dims(tokens, axis=-1)
    return xp.where(hit, xp.ones_like(like), xp.zeros_like(like))


def judge(xp: Any, p: Array, q: Array, drafted: Array, draws: Array) -> tuple[Array, Array]:
    """Score a drafted chain against the target (Leviathan et al. 2023, algorithm 1).

    p: [k+1, V] target; q: [k, V] the distribution the chain was drawn from (a point mass if it
    was not drawn); drafted: [k]; draws: [k+1].
    Returns accept [k], the probability of keeping each drafted token, and fallback [k+1]: the
    token to emit if position i is the first rejection, or, at k, if none is.
    """
    at = xp.expand_dims(drafted, axis=-1)
    p_at = xp.take_along_axis(p[:-1, :], at, axis=-1)[..., 0]
    q_at = xp.take_along_axis(q, at, axis=-1)[..., 0]
    accept = xp.minimum(p_at / q_at, xp.ones_like(p_at))
    residual = xp.maximum(p[:-1, :] - q, xp.zeros_like(q))
    # p == q leaves an empty residual; accept is then 1 and the fallback is never read.
    return accept, draw(xp, xp.concat([residual, p[-1:, :]], axis=0), draws)


def judge_tree(
    xp: Any, p: Array, drafted: Array, parents: Array, draws: Array
) -> tuple[Array, Array]:
    """Score a drafted tree of n nodes, none of them drawn, against the target.

    Siblings are tried in turn: the first is kept with its probability p(x), each next one with
    its share of what those before it have left.  Where none is kept the token comes from p without
    the children (SpecInfer, Miao et al. 2024, section 4.3, with point masses for q).

    p: [n+1, V] target, after the root and after each node; drafted: [n], siblings all different;
    parents: [n], -1 for the root; draws: [n+1].
    Returns accept [n], the probability of keeping each node once its earlier siblings are
    rejected, and fallback [n+1]: the token to emit if no child of the root (0) or of node i (i + 1)
    is kept.
    """
    rows = parents + 1
    chances = xp.take(xp.reshape(p, (-1,)), rows * p.shape[-1] + drafted, axis=0)
    rest = p * 1
    rest[rows, drafted] = 0
    siblings = xp.expand_dims(parents, axis=1) == xp.expand_dims(parents, axis=0)
    place = xp.cumulative_sum(xp.ones_like(parents), axis=0)
    later = siblings & (xp.expand_dims(place, axis=0) >= xp.expand_dims(place, axis=1))
    # Summed from what is left, not as 1 - sum: the last of all tokens gets exactly 1.
    left = xp.sum(xp.where(later, xp.expand_dims(chances, axis=0), 0.0), axis=-1)
    left = left + xp.take(xp.sum(rest, axis=-1), rows, axis=0)
    accept = xp.where(chances > 0, chances / xp.where(chances > 0, left, 1.0), 0.0)
    # Where the children have all the mass, one of them is kept and the fallback is never read.
    return accept, draw(xp, rest, draws)


def ancestry(xp: Any, parents: Array, depth: int) -> Array:
    """Which of a root and n nodes [n+1, n+1] each of them sees: itself and those above it.

    parents: [n], -1 for the root; depth: a bound on the levels.  A row's sum is its depth plus one.
    """
    above = xp.concat([xp.zeros_like(parents[:1]), parents + 1], axis=0)
    own = xp.cumulative_sum(xp.ones_like(above), axis=0) - 1
    at = own
    seen = xp.expand_dims(at, axis=-1) == own
    for _ in range(depth):
        at = xp.take(above, at, axis=0)
        seen = seen | (xp.expand_dims(at, axis=-1) == own)
    return seen


def condense(xp: Any, rows: Array, top: Top) -> Array:
    """Keep the likeliest tokens: distributions [n, rows, V] give [n, rows, C + 1].

    The first is the argmax of row 0, then come those to which any row gives most, and the last is
    all others taken for one token, so that every row stays a distribution.  C is V, at most KEPT.
    """
    n, count, vocabulary = rows.shape
    kept = min(KEPT, vocabulary)
    first, most = rows[:, 0, :], xp.max(rows, axis=1)
    most = xp.where(first >= xp.max(first, axis=-1, keepdims=True), 2.0, most)
    at = xp.broadcast_to(xp.expand_dims(top(most, kept)[1], axis=1), (n, count, kept))
    likeliest = xp.take_along_axis(rows, at, axis=-1)
    rest = 1 - xp.sum(likeliest, axis=-1, keepdims=True)
    condensed = xp.concat([likeliest, rest], axis=-1)
    return xp.where(condensed > FLOOR, condensed, FLOOR)


def divergence(xp: Any, p: Array, q: Array) -> Array:
    """KL(p, q) in nats [n, G] of p [n, C] and q [n, G, C], all above zero.

    The cross-entropy but for what does not depend on q.
    """
    negentropy = xp.sum(p * xp.log(p), axis=-1, keepdims=True)
    return negentropy - (xp.log(q) @ xp.expand_dims(p, axis=-1))[..., 0]


def variation(xp: Any, p: Array, q: Array) -> Array:
    """The sum [n, G] of |p - q|, p [n, C] and q [n, G, C]."""
    return xp.sum(xp.abs(xp.expand_dims(p, axis=1) - q), axis=-1)


def score(
    xp: Any, p: Array, q: Array, candidates: Array, distance: Callable[..., Array], top: Top
) -> Array:
    """How well mixtures would have foretold the target (TABED): [n, 2, G].

    p: [n, V] target; q: [n, R, V] branches; candidates: [G, R]; distance: `divergence` or
    `variation`.  First whether a mixture's argmax is the target's, 1 or 0, up to a near-tie; then
    its distance from p.
    """
    rows = condense(xp, xp.concat([xp.expand_dims(p, axis=1), q], axis=1), top)
    mixed = candidates @ rows[:, 1:, :]
    most = (1 - TIE) * xp.max(mixed[..., :-1], axis=-1)
    agreed = xp.where(mixed[..., 0] >= most, xp.ones_like(most), xp.zeros_like(most))
    return xp.stack([agreed, distance(xp, rows[:, 0, :], mixed)], axis=1)
