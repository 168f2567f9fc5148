"""Adaptive weights the long way: the whole history scored again, in float64, for every mixture."""

from itertools import product

import numpy as np

KEPT = 32
FLOOR = 2.0**-30
"""The least probability that anything is given, before mixing."""
NEAR = 1e-5
"""What counts as a tie: relative for probabilities, in nats per token for divergences."""


def softmax(logits):
    logits = np.asarray(logits, dtype=np.float64)
    exp = np.exp(logits - logits.max(-1, keepdims=True))
    return exp / exp.sum(-1, keepdims=True)


def condensed(p, q):
    """p [V] and q [R, V] with all but the target's and the likeliest tokens taken for one."""
    most = np.where(np.arange(len(p)) == p.argmax(), 2, np.maximum(p, q.max(0)))
    order = np.argsort(-most)[:KEPT]
    rows = np.vstack([p, q])
    kept = np.hstack([rows[:, order], 1 - rows[:, order].sum(1, keepdims=True)])
    kept = np.clip(kept, FLOOR, None)
    return kept[0], kept[1:]


def agreements(places, weights, near):
    """At how many places the mixture's argmax is the target's."""
    mixtures = [(p.argmax(), weights @ q) for p, q in places]
    return sum(mixture[best] >= (1 - near) * mixture.max() for best, mixture in mixtures)


def check(weights, history, given):
    """Assert that `weights` are those that are fitted after rounds.

    history: of each round p [k, V], q [k, R, V], and the number of tokens appended.
    """
    weights, given = np.asarray(weights, dtype=np.float64), np.asarray(given, dtype=np.float64)
    places = [place for p, q, n in history for place in list(zip(p, q, strict=True))[:n]]
    if places:
        check_lattice(weights, places, given)
    else:
        np.testing.assert_allclose(weights, given, atol=1e-6)


def check_lattice(weights, places, given):
    """On the lattice, most agreements, least divergence, and of near-ties the most even."""
    steps = np.rint(weights * 10)
    np.testing.assert_allclose(weights * 10, steps, atol=1e-5)
    assert steps.sum() == 10
    points = [np.array(each) for each in product(range(11), repeat=len(given)) if sum(each) == 10]
    points = [each / 10 for each in points if not (each * (given == 0)).any()]
    chosen = steps / 10
    # Both ways of rounding at the edge of a tie are right.
    certain = [agreements(places, point, NEAR / 2) for point in points]
    assert agreements(places, chosen, NEAR * 2) >= max(certain)
    small = [condensed(*each) for each in places]
    best = [point for point, hits in zip(points, certain, strict=True) if hits == max(certain)]
    far = [total(small, point) for point in best]
    slack = NEAR * len(places)
    assert total(small, chosen) <= min(far) + 2 * slack
    ties = [point for point, each in zip(best, far, strict=True) if each < min(far) + slack / 2]
    assert (chosen**2).sum() <= min((point**2).sum() for point in ties) + 1e-9


def total(small, weights):
    """The divergences of the target from a mixture, added up."""
    return sum(float(p @ np.log(p / (weights @ q))) for p, q in small)
