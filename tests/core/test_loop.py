"""The loop against plain decoding and exact probabilities, on a host-only target."""

from collections import Counter
from itertools import product

import numpy as np
import pytest

from mmspec import maths
from mmspec.draft import Verdict
from mmspec.loop import decode, until_stop, walk
from mmspec.sampling import GREEDY, Sampling, uniform, uniforms
from mmspec.seam import Segment
from scripted import ScriptedDrafter, ScriptedTarget, logits

PROMPT = [3, 1, 4, 1, 5]


class Equal:
    def __init__(self, rows: int = 1) -> None:
        self.rows = rows

    def weights(self, row_lengths, gamma):
        return [1 / self.rows] * self.rows


def opened(prompt=PROMPT, *, vocabulary=11, sampling=GREEDY, draft_sampling=GREEDY, **drafter):
    target = ScriptedTarget(vocabulary=vocabulary, sampling=sampling)
    drafts = ScriptedDrafter(vocabulary=vocabulary, sampling=draft_sampling, **drafter)
    target.extend(Segment(prompt))
    drafts.extend([Segment(prompt)] * drafts.rows)
    return target, drafts


def tokens(target, drafter, **options):
    rows = len(drafter.row_lengths) if drafter else 1
    rounds = decode(target, drafter, Equal(rows) if drafter else None, **options)
    return [token for each in rounds for token in each.tokens]


def greedy(count, prompt=PROMPT, vocabulary=11):
    said = list(prompt)
    for _ in range(count):
        said.append(int(logits(0, said, vocabulary).argmax()))
    return said[len(prompt) :]


@pytest.mark.parametrize("gamma", range(1, 9))
def test_greedy_speculation_equals_the_target_alone(gamma):
    target, drafter = opened()
    assert tokens(target, drafter, gamma=gamma, max_tokens=60) == greedy(60)


def test_plain_decoding_is_the_same_loop():
    target, _ = opened()
    assert tokens(target, None, gamma=5, max_tokens=30) == greedy(30)


@pytest.mark.parametrize("budget", range(1, 20))
def test_the_budget_is_exact(budget):
    target, drafter = opened()
    assert tokens(target, drafter, gamma=5, max_tokens=budget) == greedy(budget)
    assert target.length == drafter.length == len(PROMPT) + budget


@pytest.mark.parametrize("at", range(1, 20))
def test_nothing_follows_a_stop_token(at):
    stop = {greedy(40)[at]}
    expected = until_stop(greedy(40), stop)
    target, drafter = opened()
    assert tokens(target, drafter, gamma=4, max_tokens=40, stop=stop) == expected
    assert target.sequence == PROMPT + expected
    assert drafter.sequences[0] == PROMPT + expected


def test_rounds_count_what_was_drafted_and_kept():
    target, drafter = opened()
    rounds = list(decode(target, drafter, Equal(), gamma=4, max_tokens=50))
    assert all(len(r.tokens) in (r.accepted, r.accepted + 1) for r in rounds)
    assert 0 < sum(r.accepted for r in rounds) < sum(r.drafted for r in rounds)


def test_a_drafter_without_weights_is_told_what_was_said():
    class Never:
        def weights(self, row_lengths, gamma):
            return []

    target, drafter = opened()
    said = [t for r in decode(target, drafter, Never(), gamma=4, max_tokens=10) for t in r.tokens]
    assert said == greedy(10)
    assert drafter.sequences[0] == PROMPT + said


def test_walk_takes_the_first_child_accepted():
    verdict = Verdict([5, 6, 7, 8], [-1, -1, 1, 0], [0.2, 0.9, 1.0, 1.0], [0] * 5)
    assert walk(verdict, [0.5, 0.5, 0.5, 0.5]) == [1, 2]
    assert walk(verdict, [0.1, 0.5, 0.5, 0.5]) == [0, 3]
    assert walk(verdict, [0.5, 0.95, 0.5, 0.5]) == []


def chi_square(sampling, draft_sampling):
    def pair():
        return opened(vocabulary=4, sampling=sampling, draft_sampling=draft_sampling, wrong_every=1)

    return chi_square_of(pair, sampling)


def chi_square_of(pair, sampling, count=2500, length=2, vocabulary=4):
    """Compare sampled continuations with their exact joint distribution under the target."""
    seen = Counter()
    for seed in range(count):
        target, drafter = pair()
        seen[
            tuple(tokens(target, drafter, gamma=2, max_tokens=length + 1, seed=seed)[:length])
        ] += 1
    return sum(
        (seen[each] - count * p) ** 2 / (count * p) if p else seen[each] * np.inf
        for each, p in exact(sampling, length, vocabulary).items()
        if p or seen[each]
    )


def exact(sampling, length, vocabulary):
    joint = {}
    for each in product(range(vocabulary), repeat=length):
        p = 1.0
        for i, token in enumerate(each):
            p *= warped(logits(0, [*PROMPT, *each[:i]], vocabulary), sampling)[token]
        joint[each] = p
    return joint


def warped(row, sampling):
    """The target's distribution computed the long way, in float64."""
    row = row.astype(np.float64) / sampling.temperature
    p = np.exp(row - row.max())
    p /= p.sum()
    order = np.argsort(-p)
    keep = len(p) if not sampling.top_k else sampling.top_k
    p[order[keep:]] = 0
    p /= p.sum()
    kept = (
        np.searchsorted(np.cumsum(p[order]), sampling.top_p) + 1 if sampling.top_p < 1 else len(p)
    )
    p[order[kept:]] = 0
    return p / p.sum()


@pytest.mark.parametrize("drawn", [True, False], ids=["drawn", "argmax"])
@pytest.mark.parametrize(
    "sampling",
    [Sampling(1.0), Sampling(0.6), Sampling(1.3, top_k=2), Sampling(1.0, top_p=0.7)],
    ids=["T1", "T0.6", "top-k", "top-p"],
)
def test_sampling_is_exactly_the_targets(sampling, drawn):
    # 99.9 % of chi-square with 15 degrees of freedom; fewer where tokens are cut off.
    assert chi_square(sampling, sampling if drawn else GREEDY) < 37.7


@pytest.mark.parametrize("top_p", [1e-320, 1e-46, 1e-10])
def test_the_likeliest_is_kept_however_small_top_p_is(top_p):
    p = np.array([[0.1, 0.6, 0.3], [1.0, 0.0, 0.0]], dtype=np.float32)
    assert maths.warp(np, p, Sampling(1.0, top_p=top_p)).tolist() == [[0, 1, 0], [1, 0, 0]]


def test_uniforms_depend_on_every_key_and_stay_below_one():
    base = uniform(7, 100, "draft", 0)
    others = [uniform(8, 100, "draft", 0), uniform(7, 101, "draft", 0)]
    others += [uniform(7, 100, "accept", 0), uniform(7, 100, "draft", 1)]
    assert base not in others
    many = np.array(uniforms(1, 1, "fallback", 20000))
    assert (many < 1).all()
    assert (many.astype(np.float32) == many).all()
    histogram, _ = np.histogram(many, bins=20, range=(0, 1))
    assert ((histogram - 1000) ** 2 / 1000).sum() < 43.8  # 99.9 % at 19 degrees of freedom


def test_another_gamma_does_not_shift_the_draws_of_a_plain_run():
    """With the target as its own draft every token is accepted, so gamma must not matter."""
    sampling = Sampling(1.0)
    runs = []
    for _ in range(2):
        target, _ = opened(sampling=sampling)
        runs.append(tokens(target, None, gamma=1, max_tokens=20, seed=3))
    assert runs[0] == runs[1]
