"""Chi-square, and distributions computed the long way."""

import numpy as np


def warped(logits, sampling):
    """The distribution [V] of one row of logits in float64: temperature, then top-k, then top-p."""
    row = logits.astype(np.float64)
    p = np.exp((row - row.max()) / sampling.temperature)
    p /= p.sum()
    order = np.argsort(-p, kind="stable")
    if sampling.top_k:
        p[order[sampling.top_k :]] = 0
        p /= p.sum()
    reached = np.cumsum(p[order]) - p[order]
    p[order[reached >= sampling.top_p]] = 0
    return p / p.sum()


def bound(freedom):
    """99.99 % of chi-square (Wilson and Hilferty's approximation)."""
    spread = 2 / (9 * freedom)
    return freedom * (1 - spread + 3.72 * spread**0.5) ** 3


def check_fit(counts, p):
    """Hold counts to probabilities, both flat; what is expected less than five times is pooled."""
    counts, expected = np.ravel(counts), np.ravel(p) * np.sum(counts)
    assert not counts[expected == 0].any()
    often = expected >= 5
    cells = list(zip(counts[often], expected[often], strict=True))
    if expected[~often].sum() > 0:
        cells.append((counts[~often].sum(), expected[~often].sum()))
    chi_square = sum((count - mean) ** 2 / mean for count, mean in cells)
    assert chi_square < bound(len(cells) - 1), (chi_square, len(cells) - 1)
