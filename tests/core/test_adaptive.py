"""Adaptive weights against a dense history, and what answers they start and end with."""

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from test_loop import rounds_of, tokens

from mmspec.chat.options import Options
from mmspec.decoding import formulas
from mmspec.decoding.adaptive_weights import RULES, Adaptation, Evidence, Tally, lattice
from mmspec.decoding.contract import Segment
from mmspec.decoding.sampling import GREEDY, Sampling
from mmspec.ground.errors import UsageError
from support.adaptive_oracle import check, softmax
from support.scripted import ScriptedDrafter, ScriptedTarget, logits
from support.scripted_sampling import top

VIEWS = [[3, 1, 4, 1, 5], [9, 2, 5], [6, 5]]
VOCABULARY = 11


def tally(branches, rule="lattice", window=0):
    adaptation = Adaptation(rule, window)
    return Tally(np, adaptation, np.array(adaptation.candidates(branches), dtype=np.float32), top)


def probabilities(draws, *shape):
    """From flat to nearly certain; several share their likeliest token."""
    logits = draws.normal(size=shape) + 2 * draws.normal(size=shape[-1])
    return softmax(logits * draws.choice([0.3, 1.0, 4.0])).astype(np.float32)


def random_round(draws, branches, vocabulary):
    """Target and branches at k places, and how many tokens were appended."""
    k = int(draws.integers(1, 6))
    p, q = (probabilities(draws, k, *rows, vocabulary) for rows in ((), (branches,)))
    return p, q, int(draws.integers(1, k + 2))


def evidence(p, q):
    return Evidence(q, np.log(p))


# Against the dense history


@settings(max_examples=40)
@given(
    seed=st.integers(0, 2**32 - 1),
    branches=st.integers(2, 4),
    vocabulary=st.sampled_from([3, 17, 64]),
    rounds=st.integers(0, 6),
    window=st.sampled_from([0, 1, 4, 16]),
    rule=st.sampled_from(RULES),
    out=st.integers(-1, 3),
)
@example(seed=156, branches=2, vocabulary=64, rounds=2, window=0, rule="lattice", out=-1)
def test_weights_are_those_of_the_whole_history(
    seed, branches, vocabulary, rounds, window, rule, out
):
    draws = np.random.default_rng(seed)
    allowed = [0.0 if row == out else 1.0 for row in range(branches)]
    start = np.array(allowed, dtype=np.float32) / sum(allowed)
    kept, history = tally(branches, rule, window), []
    for _ in range(rounds):
        p, q, tokens = random_round(draws, branches, vocabulary)
        history.append((p, q, tokens))
        kept = kept.noted(evidence(p, q), tokens)
        kept = kept.settled() if draws.integers(4) else kept.settled().settled()
    check(kept.settled().weights(start), history, rule, window, start)


def test_matches_come_before_the_cross_entropy():
    p = np.array([[0.36, 0.34, 0.30]], dtype=np.float32)
    q = np.array([[[0.98, 0.01, 0.01], [0.33, 0.35, 0.32]]], dtype=np.float32)
    nearer = [-(p[0] * np.log(w * q[0, 0] + (1 - w) * q[0, 1])).sum() for w in (0.0, 0.1)]
    assert nearer[0] < nearer[1]
    kept = tally(2).noted(evidence(p, q), 1).settled()
    np.testing.assert_allclose(kept.weights(np.array([0.5, 0.5], dtype=np.float32)), [0.1, 0.9])


def test_large_vocabularies_agree_where_no_mixture_is_flat():
    draws = np.random.default_rng(0)
    wanted = 3 * draws.normal(size=(8, 1, 500))
    p = softmax(wanted[:, 0]).astype(np.float32)
    q = softmax(wanted + draws.normal(size=(8, 3, 500))).astype(np.float32)
    points = np.array(lattice(3), dtype=np.float32)
    agreed, far = formulas.score(np, p, q, points, formulas.divergence, top).swapaxes(0, 1)
    mixed = points @ q
    assert (agreed == (mixed.argmax(-1) == p.argmax(-1)[:, None])).all()
    whole = (p[:, None] * (np.log(p)[:, None] - np.log(mixed))).sum(-1)
    assert (far <= whole + 1e-4).all()
    assert (far > 0.65 * whole).all()


def test_what_is_left_out_counts_as_one_token():
    draws = np.random.default_rng(1)
    rows = probabilities(draws, 4, 3, 300)
    kept = formulas.condense(np, rows, top)
    assert kept.shape == (4, 3, 33)
    np.testing.assert_allclose(kept.sum(-1), 1, atol=1e-6)
    np.testing.assert_array_equal(kept[:, 0, 0], rows[:, 0].max(-1))


def test_probabilities_of_zero_are_no_infinities():
    p, q = np.eye(3, dtype=np.float32)[:2], np.eye(3, dtype=np.float32)[None, 1:]
    scores = formulas.score(np, p[:1], q, np.eye(2, dtype=np.float32), formulas.divergence, top)
    assert np.isfinite(scores).all()


@pytest.mark.parametrize(("branches", "count"), [(2, 11), (3, 66), (4, 286)])
def test_the_lattice_is_whole_and_starts_even(branches, count):
    points = lattice(branches)
    assert len(set(points)) == len(points) == count
    assert all(abs(sum(point) - 1) < 1e-9 for point in points)
    assert max(points[0]) - min(points[0]) < 0.2
    assert max(points[-1]) == 1


def test_equal_branches_share_evenly():
    draws = np.random.default_rng(2)
    p, q = probabilities(draws, 4, 20), probabilities(draws, 4, 1, 20)
    same = tally(2).noted(evidence(p, np.concatenate([q, q], axis=1)), 4).settled()
    np.testing.assert_allclose(same.weights(np.array([0.9, 0.1])), [0.5, 0.5])


# Which places count


def told(right, k):
    """A target sure of token 0, and two branches, of which one says so and one says 1."""
    p = np.full((k, 4), 0.01, dtype=np.float32)
    p[:, 0] = 0.97
    q = np.stack([p, p[:, [1, 0, 2, 3]]], axis=1)
    return (p, q) if right == 0 else (p, q[:, ::-1])


@pytest.mark.parametrize(("tokens", "counted"), [(1, 1), (3, 3), (5, 5), (6, 5)])
def test_accepted_places_and_the_rejected_one_count_and_the_bonus_does_not(tokens, counted):
    noted = tally(2).noted(evidence(*told(0, 5)), tokens).settled()
    assert noted.tokens == counted
    assert noted.scores[0, 0].max() == counted


def test_a_first_token_that_was_rejected_counts_already():
    fitted = tally(2).noted(evidence(*told(1, 3)), 1).settled().weights(np.array([0.5, 0.5]))
    np.testing.assert_allclose(fitted, [0.0, 1.0])


def test_a_draft_that_nobody_verified_tells_nothing():
    kept = tally(2).noted(None, 1)
    assert kept.settled().tokens == 0


@pytest.mark.parametrize("window", [0, 3])
def test_memory_does_not_grow_with_the_answer(window):
    kept = tally(2, window=window)
    for _ in range(6):
        kept = kept.noted(evidence(*told(0, 4)), 4).settled()
    assert kept.scores.shape[0] == max(window, 1)
    assert kept.tokens == (window or 24)


def test_a_window_forgets_what_left_it():
    kept = tally(2, window=4).noted(evidence(*told(0, 4)), 4).settled()
    for each, weights in ((1, [0.5, 0.5]), (3, [0.0, 1.0])):
        kept = kept.noted(evidence(*told(1, each)), each).settled()
        fitted = kept.weights(np.array([0.5, 0.5]))
        if each == 3:
            np.testing.assert_allclose(fitted, weights)
    assert kept.tokens == 4


# In the loop


def opened(adaptation, sampling=GREEDY, rows=3, vocabulary=VOCABULARY):
    target = ScriptedTarget(vocabulary=vocabulary, sampling=sampling)
    drafter = ScriptedDrafter(
        rows=rows, vocabulary=vocabulary, sampling=sampling, adaptation=adaptation
    )
    target.extend(Segment([VIEWS[0]]))
    drafter.extend([Segment([[*view, 7]]) for view in VIEWS[:rows]])
    return target, drafter


@pytest.mark.parametrize("window", [0, 2])
@pytest.mark.parametrize("rule", RULES)
def test_every_round_is_mixed_as_the_rounds_before_it_say(rule, window):
    target, drafter = opened(Adaptation(rule, window))
    past, views, history = list(target.sequence), list(map(list, drafter.sequences)), []
    done = rounds_of(target, drafter, gamma=3, max_tokens=40)
    assert len({each.weights for each in done}) > 2
    for each in done:
        if not each.drafted:
            continue
        check(each.weights, history, rule, window, [1 / 3] * 3)
        p, q = [], []
        for place in range(min(len(each.tokens), each.drafted)):
            said = each.tokens[:place]
            p.append(softmax(logits(0, past + said, VOCABULARY)))
            q.append(softmax([drafter._logits(view + said) for view in views]))
        history.append((np.array(p), np.array(q), len(each.tokens)))
        past += each.tokens
        views = [view + each.tokens for view in views]


@pytest.mark.parametrize("rule", RULES)
def test_sampled_answers_are_the_targets_own_whatever_has_been_observed(rule):
    """One drafter that never forgets answers over and over."""
    target, drafter = opened(Adaptation(rule, 8), Sampling(1.0))
    starts = target.length, drafter.length
    for seed in range(20):
        answers = []
        for chosen in (drafter, None):
            target.rewind(starts[0])
            drafter.rewind(starts[1])
            answers.append(tokens(target, chosen, gamma=2, max_tokens=9, seed=seed))
        assert answers[0] == answers[1]


def test_a_branch_alone_has_nothing_to_adapt():
    target, drafter = opened(Adaptation(), rows=1)
    assert {
        each.weights for each in rounds_of(target, drafter, gamma=3, max_tokens=20) if each.drafted
    } == {(1.0,)}


def test_options_out_of_range_are_refused():
    with pytest.raises(UsageError, match=r"lattice, kl, tv or accepted \(nearest: lattice\)"):
        Adaptation("latice")
    with pytest.raises(UsageError, match="`window=-1`"):
        Adaptation(window=-1)


@pytest.mark.parametrize("drafting", ["M", "t", "ngram", "msd"])
def test_one_view_leaves_nothing_to_weigh(drafting):
    with pytest.raises(UsageError, match="`adaptive` has nothing to weigh"):
        Options(drafting=drafting, adaptive=Adaptation())


@pytest.mark.parametrize("drafting", [None, "none", "MT"])
def test_adaptive_goes_with_views_chosen_later_and_with_plain_decoding(drafting):
    assert Options(drafting=drafting, adaptive=Adaptation()).adaptive
