"""Adaptive weights the long way: the whole history scored again, in float64, for every mixture."""

from itertools import product

import numpy as np

KEPT = 32
FLOOR = 2.0**-30
"""The least probability that anything is given, before mixing."""
NEAR = 1e-5
"""What counts as a tie: relative for probabilities, in nats per token for divergences."""
NOISE = 3e-7
"""What one minus a float32 sum of probabilities may be off by."""


def softmax(logits):
    logits = np.asarray(logits, dtype=np.float64)
    exp = np.exp(logits - logits.max(-1, keepdims=True))
    return exp / exp.sum(-1, keepdims=True)


def condensed(p, q, noise=0.0):
    """p [V] and q [R, V] with all but the target's and the likeliest tokens taken for one.

    noise: is added to what the branches give to that one.
    """
    most = np.where(np.arange(len(p)) == p.argmax(), 2, np.maximum(p, q.max(0)))
    order = np.argsort(-most)[:KEPT]
    rows = np.vstack([p, q])
    kept = np.hstack([rows[:, order], 1 - rows[:, order].sum(1, keepdims=True)])
    kept[1:, -1] += noise
    kept = np.clip(kept, FLOOR, None)
    return kept[0], kept[1:]


def divergence(p, q):
    return float(sum(a * np.log(a / b) for a, b in zip(p, q, strict=True)))


def observed(rounds):
    """The places (p, q) of rounds (p [k, V], q [k, R, V], tokens appended)."""
    for p, q, tokens in rounds:
        yield from list(zip(p, q, strict=True))[:tokens]


def window_of(history, window):
    places = list(observed(history))
    return places[-window:] if window else places


def agreements(places, weights, near):
    """At how many places the mixture's argmax is the target's."""
    hits = 0
    for p, q in places:
        mixture = weights @ q
        hits += mixture[p.argmax()] >= (1 - near) * mixture.max()
    return hits


def check(weights, history, rule, window, given):
    """Assert that `weights` are those that a rule gives after `history`."""
    weights, given = np.asarray(weights, dtype=np.float64), np.asarray(given, dtype=np.float64)
    places = window_of(history, window)
    if not places:
        np.testing.assert_allclose(weights, given, atol=1e-6)
    elif rule == "lattice":
        check_lattice(weights, places, given)
    else:
        check_alone(weights, rule, places, given)


def check_alone(weights, rule, places, given):
    """Each branch's share of all merits, whichever way rounding went for each of them."""
    ways = [merits(rule, places, len(given), noise) * (given > 0) for noise in (-NOISE, 0, NOISE)]
    low, high = np.min(ways, axis=0), np.max(ways, axis=0)
    if not high.sum():
        np.testing.assert_allclose(weights, given, atol=1e-6)
        return
    least = low / np.maximum(low + high.sum() - high, 1e-300)
    most = high / np.maximum(high + low.sum() - low, 1e-300)
    assert (weights >= least - 2e-4).all()
    assert (weights <= most + 2e-4).all()


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
    return sum(divergence(p, weights @ q) for p, q in small)


def merits(rule, places, branches, noise):
    """Each branch's own score."""
    small = [condensed(*each, noise) for each in places]
    least = NEAR * len(places)
    ones = np.eye(branches)
    if rule == "accepted":
        return np.array([agreements(places, one, NEAR) for one in ones], dtype=np.float64)
    if rule == "kl":
        return np.array([1 / max(total(small, one), least) for one in ones])
    gaps = [sum(np.abs(p - one @ q).sum() for p, q in small) for one in ones]
    return np.array([1 / max(gap, least) for gap in gaps])
