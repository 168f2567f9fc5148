"""The noise, and plain sampling under it, against exact probabilities."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as some

from mmspec.decoding.host_framework import HOST
from mmspec.decoding.noise import Noise, exponential, exponentials
from mmspec.decoding.sampling import Sampling
from mmspec.decoding.statistics import likelihoods
from support.chi_square import check_fit, warped

COUNT = 20_000
SAMPLINGS = {
    "T1": Sampling(1.0),
    "T0.6": Sampling(0.6),
    "top-k": Sampling(1.3, top_k=40),
    "top-p": Sampling(1.0, top_p=0.7),
    "both": Sampling(0.8, top_k=40, top_p=0.8),
}


def drawn(noises, vocabulary):
    ids = np.arange(vocabulary, dtype=np.uint32)
    return exponentials(np, np.concatenate([HOST.keys(each, 1) for each in noises]), ids)


def rows(vocabulary):
    """Logits of a few likely tokens and a long tail."""
    row = np.random.default_rng(0).normal(size=vocabulary).astype(np.float32) * 3
    row[:8] += 4 + np.log(vocabulary / 1024)
    return row


@pytest.mark.parametrize(
    ("name", "vocabulary", "count", "vary"),
    [
        *((name, 1024, 4000, "positions") for name in SAMPLINGS),
        ("T1", 1024, 2000, "seeds"),
        ("T0.6", 32_064, 600, "positions"),
    ],
)
def test_tokens_fit_exact_probabilities(name, vocabulary, count, vary):
    row, sampling = rows(vocabulary), SAMPLINGS[name]
    noises = [Noise(7, n) if vary == "positions" else Noise(n, 7) for n in range(count)]
    counts = np.zeros(vocabulary)
    for start in range(0, count, 100):
        part = np.concatenate([HOST.keys(each, 1) for each in noises[start : start + 100]])
        logits = np.broadcast_to(row, (len(part), vocabulary))
        tokens = HOST.sampler(sampling).tokens(logits, part)
        counts += np.bincount(tokens, minlength=vocabulary)
    check_fit(counts, warped(row, sampling))


@pytest.mark.parametrize("step", [1, 2, 64])
def test_tokens_of_two_positions_are_independent(step):
    p = np.array([0.5, 0.25, 0.15, 0.1])
    tokens = (drawn([Noise(3, n) for n in range(COUNT)], 4) / p).argmin(-1)
    pairs = np.zeros((4, 4))
    np.add.at(pairs, (tokens[: -2 * step : 2], tokens[step:-step:2]), 1)
    check_fit(pairs, np.outer(p, p))


@pytest.mark.parametrize("step", [1, 2, 3])
def test_the_tokens_of_one_position_have_independent_noise(step):
    """Within one row, whose tokens are hashed from an arithmetic sequence."""
    for row in drawn([Noise(5, n) for n in range(20)], COUNT) < np.log(2):
        pairs = np.zeros((2, 2))
        np.add.at(pairs, (row[:-step].astype(int), row[step:].astype(int)), 1)
        check_fit(pairs, np.full((2, 2), 0.25))


def test_the_noise_is_exponential_down_to_its_smallest_values():
    noise = np.concatenate([drawn([Noise(1, n)], 100_000).ravel() for n in range(40)])
    assert noise.dtype == np.float32
    assert noise.min() > 0
    assert np.isfinite(noise).all()
    edges = -np.log1p(-np.linspace(0, 1, 65)[:-1])
    check_fit(np.bincount(np.searchsorted(edges, noise, "right") - 1, minlength=64), [1 / 64] * 64)
    # Below 2**-16 some sixty are expected: a hash of 24 bits would give them few values, or none.
    small = noise[noise < 2**-16]
    assert 30 < len(small) < 100
    assert len(np.unique(small)) == len(small)
    assert (np.frexp(small)[0] * 2**24 % 256 != 0).mean() > 0.5


def test_the_largest_noise_is_finite():
    """Keys that make the hash 2**32 - 1: what hashes to it, found by undoing the hash."""
    x = 2**32 - 1
    for shift, factor in ((15, 0x735A2D97), (15, 0x21F0AAAD), (16, 1)):
        y = x
        for _ in range(32 // shift):
            y = x ^ (y >> shift)
        x = y * pow(factor, -1, 2**32) % 2**32
    largest = exponentials(np, np.array([[1, x]], dtype=np.uint32), np.array([0], dtype=np.uint32))
    assert 16.6 < largest.item() < 16.7


def test_noise_depends_on_seed_position_and_token_alone():
    base = drawn([Noise(7, 100)], 10)
    assert (drawn([Noise(7, 98)], 10) != base).all()
    assert (drawn([Noise(8, 100)], 10) != base).all()
    assert (drawn([Noise(-1, 100)], 10) != drawn([Noise(1, 100)], 10)).all()
    assert (drawn([Noise(7 + 2**40, 100)], 10) != base).all()
    later = exponentials(np, HOST.keys(Noise(7, 98), 3), np.arange(3, 10, dtype=np.uint32))
    assert (later[2] == base[0, 3:]).all()


@pytest.mark.parametrize("name", SAMPLINGS)
def test_children_are_the_least_of_noise_over_probability(name):
    logits = np.stack([rows(1024), rows(1024)[::-1]])
    noise = HOST.keys(Noise(4, 9), 1)
    confidence, ids = HOST.sampler(SAMPLINGS[name]).children(logits, noise, 5)
    E = exponentials(np, noise, np.arange(1024, dtype=np.uint32))[0]
    for row, sure, children in zip(logits, confidence, ids, strict=True):
        p = warped(row, SAMPLINGS[name])
        with np.errstate(divide="ignore"):
            assert children.tolist() == np.argsort(E / p)[:5].tolist()
        share = p / E / (p / E).sum()
        np.testing.assert_allclose(sure, share[children], rtol=1e-4)
    assert ids[:, 0].tolist() == HOST.sampler(SAMPLINGS[name]).tokens(logits, noise).tolist()


@pytest.mark.parametrize("count", [0, 1, 7, 300, 500])
def test_the_likeliest_are_those_of_a_sort_of_all_which_is_not_made(count, monkeypatch):
    """Of many ties, some of which are cut; of all tokens if there are fewer."""
    logits = np.random.default_rng(count).integers(0, 9, (3, 400)).astype(np.float32)
    sort, sizes = np.argsort, []
    expected = sort(-logits, axis=-1, kind="stable")[:, :count]
    monkeypatch.setattr(np, "argsort", lambda x, **how: sizes.append(len(x)) or sort(x, **how))
    rows = likelihoods(logits, [0, 1, 2], count)
    assert [[id for id, _ in row.likeliest] for row in rows] == expected.tolist()
    assert max(sizes, default=0) <= count


@pytest.mark.parametrize("top_p", [1e-320, 1e-46, 1e-10])
def test_the_likeliest_is_kept_however_small_top_p_is(top_p):
    logits = np.log(np.array([[0.1, 0.6, 0.3], [0.98, 0.01, 0.01]], dtype=np.float32))
    for n in range(50):
        tokens = HOST.sampler(Sampling(1.0, top_p=top_p)).tokens(logits, HOST.keys(Noise(0, n), 2))
        assert tokens.tolist() == [1, 0]


@pytest.mark.parametrize("temperature", [5e-324, 1e-45, 1e-30, 1e-7])
def test_the_smallest_temperatures_are_greedy(temperature):
    logits = np.array([[1.0, 1.0001, -3.0], [80.0, -80.0, 79.9]], np.float32)
    chosen = HOST.sampler(Sampling(temperature, top_p=0.9))
    own = HOST.keys(Noise(7, 3), 2)
    assert chosen.tokens(logits, own).tolist() == [1, 0]
    confidence, children = chosen.children(logits, own, 2)
    assert np.isfinite(confidence).all()
    assert children[:, 0].tolist() == [1, 0]


@given(some.integers(0, 2**64 - 1), some.integers(0, 2**20), some.integers(0, 2**31 - 1))
def test_one_variable_is_that_of_arrays(seed, position, token):
    noise = Noise(seed, position)
    (of_arrays,) = exponentials(np, HOST.keys(noise, 1), np.array([token], dtype=np.uint32))[0]
    assert exponential(noise.keys(1)[0], token) == pytest.approx(of_arrays, rel=1e-5)
