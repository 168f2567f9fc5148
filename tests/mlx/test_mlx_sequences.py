"""Caches, rows and rounds: whatever happened before, a sequence continues like a cold one."""

import mlx.core as mx
import mlx_oracle as oracle
import numpy as np
import pytest

import factory
from mmspec.sampling import Sampling
from mmspec.seam import Segment
from mmspec_mlx import cache
from mmspec_mlx.backend import MlxBackend
from mmspec_mlx.llama import Llama

# The target's sequence


@pytest.mark.parametrize("cut", [0, 1, 3, 9, 19, 21, 30, 39, 42, 45])
def test_after_any_rewind_a_target_continues_like_a_cold_one(pair, views, cut):
    target = oracle.target(pair[0], views[0])
    said = oracle.plain(target, 3)
    target.rewind(cut)
    for tokens in ([90, 91], [92]):
        target.extend(Segment(tokens))
    cold = oracle.target(pair[0], Segment([*views[0].tokens, *said], views[0].features))
    cold.rewind(cut)
    cold.extend(Segment([90, 91, 92]))
    np.testing.assert_allclose(target.logits(), cold.logits(), atol=1e-5)
    target.rewind(0)
    target.extend(views[0])
    assert oracle.plain(target, 3) == said


def test_rewinding_equals_never_having_gone_on(pair, views):
    target = oracle.target(pair[0], views[0])
    for length in (target.length, 30, 21, 20, 12, 4, 3, 1):
        target.rewind(length)
        assert target.length == length
        tokens = views[0].tokens[:length]
        whole = sum(length >= end for end in (19, 37))
        if length in (30, 12, 4):  # inside an image, which a segment gives whole
            continue
        cold = oracle.target(pair[0], Segment(tokens, views[0].features[:whole]))
        np.testing.assert_allclose(target.logits(), cold.logits(), atol=1e-5)


def test_rejected_drafts_leave_nothing(pair, views):
    target, alone = (oracle.target(pair[0], views[0]) for _ in range(2))
    drafter = oracle.drafter(pair[1], views[1:2])
    for _ in range(5):
        token = target.verify(drafter.draft(5, [1.0], ()), ()).fallback[0]
        target.commit([], token)
        drafter.commit([], [token])
        assert oracle.plain(alone, 1) == [token]
        np.testing.assert_allclose(target.logits(), alone.logits(), atol=1e-5)


def test_chunks_and_steps_of_the_cache_change_nothing(tmp_path):
    model = MlxBackend().load(factory.tiny_llama(tmp_path / "a", positions=1024))
    tokens = [4 + place * place % 300 for place in range(cache.STEP * 2 + 30)]
    slow = oracle.target(model, Segment(tokens[: cache.STEP - 2]))
    for token in tokens[cache.STEP - 2 :]:
        slow.extend(Segment([token]))
    whole = oracle.target(model, Segment(tokens))
    np.testing.assert_allclose(slow.logits(), whole.logits(), atol=5e-5)


@pytest.mark.parametrize(
    ("tokens", "images", "problem"),
    [
        ([1, oracle.IMAGE, 5], 1, "1 image tokens for images of 16"),
        ([1, 5], 1, "0 image tokens for images of 16"),
        ([oracle.IMAGE] * 8 + [7] + [oracle.IMAGE] * 8, 1, "split at 0"),
    ],
)
def test_image_tokens_that_are_not_an_image_are_refused(pair, views, tokens, images, problem):
    target = oracle.target(pair[0], views[0])
    with pytest.raises(ValueError, match=problem):
        target.extend(Segment(tokens, views[0].features[:images]))
    assert target.length == len(views[0].tokens)


def test_a_path_that_was_not_verified_is_refused(pair, views):
    target, drafter = oracle.target(pair[0], views[0]), oracle.drafter(pair[1], views[:1])
    target.verify(drafter.draft(2, [1.0], ()), ())
    for path in ([1], [0, 1, 2]):
        with pytest.raises(ValueError, match="path"):
            target.commit(path, 5)
    with pytest.raises(ValueError, match="path"):
        drafter.commit([0, 1, 2], [5, 6, 7, 8])


# The drafter's rows


@pytest.mark.parametrize("letters", [[0], [1], [0, 1], [2, 1, 0], [0, 1, 2, 1]])
@pytest.mark.parametrize("gamma", [1, 5])
def test_greedy_speculation_says_what_the_target_says(pair, views, letters, gamma):
    expected = oracle.plain(oracle.target(pair[0], views[0]), 50)
    drafter = oracle.drafter(pair[1], [views[letter] for letter in letters])
    done = oracle.rounds(oracle.target(pair[0], views[0]), drafter, 50, gamma=gamma)
    assert oracle.tokens(done) == expected
    assert 0 < sum(each.accepted for each in done) < sum(each.drafted for each in done)


def test_each_row_of_a_batch_says_what_it_says_alone(pair, views, monkeypatch):
    """Over two turns of uneven length, with padding and several pending tokens."""
    kept, original = [], Llama.logits

    def keep(*given):
        kept.append(original(*given))
        return kept[-1]

    monkeypatch.setattr(Llama, "logits", keep)

    def run(rows):
        kept.clear()
        drafter = oracle.drafter(pair[1], rows)
        for tokens in ([60, 61], [62]):
            drafter.draft(1, oracle.even(drafter), ())
            drafter.commit([], tokens)
        drafter.extend(rows)
        drafter.draft(1, oracle.even(drafter), ())
        return drafter.row_lengths, np.array(mx.stack(kept))

    lengths, together = run(views)
    for row, view in enumerate(views):
        length, alone = run([view])
        assert length == [lengths[row]] == [2 * len(view.tokens) + 3]
        np.testing.assert_allclose(together[:, row], alone[:, 0], atol=1e-5)


def test_a_row_of_one_token_beside_longer_ones_stays_finite(pair):
    """Its first columns are padding alone."""
    drafter = oracle.drafter(pair[1], [Segment([72]), oracle.TEXT])
    alone = oracle.drafter(pair[1], [Segment([72])])
    drafts = [each.draft(4, weights, ()).ids for each, weights in
              ((drafter, [1.0, 0.0]), (alone, [1.0]))]  # fmt: skip
    assert [each.item() for each in drafts[0]] == [each.item() for each in drafts[1]]


@oracle.both_samplings
def test_a_twin_is_always_accepted_even_after_rejections(pair, views, sampling):
    """A stale draft cache costs acceptance alone, so nothing else shows it."""
    target = oracle.target(pair[0], views[0], sampling)
    twin = oracle.drafter(pair[0], views[:2], sampling)
    first = oracle.rounds(target, twin, 40, seed=oracle.seed(sampling))
    assert any(each.accepted < each.drafted for each in first)
    later = oracle.rounds(target, twin, 40, 1.0, 0.0, seed=oracle.seed(sampling))
    assert all(each.accepted == each.drafted for each in later)


def test_a_drafter_catches_up_after_plain_rounds(pair, views):
    target, twin = oracle.target(pair[0], views[0]), oracle.drafter(pair[0], views[:1])
    for token in oracle.plain(target, 7):
        twin.commit([], [token])
    assert all(each.accepted == each.drafted for each in oracle.rounds(target, twin, 20))


def test_void_drafts_and_rewinds_leave_no_trace(pair, views):
    drafter, cold = (oracle.drafter(pair[1], views) for _ in range(2))
    start, expected = drafter.length, oracle.drafted(cold, 6)
    oracle.drafted(drafter, 5)
    assert oracle.drafted(drafter, 6) == expected
    oracle.rounds(oracle.target(pair[0], views[0]), drafter, 20)
    drafter.extend(views)
    drafter.rewind(start)
    assert drafter.row_lengths == cold.row_lengths
    assert oracle.drafted(drafter, 6) == expected


@pytest.mark.parametrize("gamma", [1, 4])
def test_after_any_rounds_a_drafter_drafts_like_a_cold_one(pair, views, gamma):
    drafter, cold = (oracle.drafter(pair[1], views) for _ in range(2))
    target = oracle.target(pair[0], views[0])
    cold.commit([], oracle.tokens(oracle.rounds(target, drafter, 25, gamma=gamma)))
    assert drafter.length == cold.length
    assert oracle.drafted(drafter, 6) == oracle.drafted(cold, 6)


def test_vocabularies_of_other_sizes(tmp_path, pair):
    wide = MlxBackend().load(factory.tiny_llama(tmp_path / "a", vocab_size=384))
    drafter = oracle.drafter(wide, [oracle.TEXT] * 2, Sampling(temperature=50.0))
    draft = drafter.draft(40, [0.5, 0.5], [place / 40 for place in range(40)])
    assert max(each.item() for each in draft.ids) < oracle.VOCABULARY
    assert draft.q.shape == (40, oracle.VOCABULARY)
    narrow = pair[0].open_drafter(1, 384, oracle.DRAWN)
    narrow.extend([oracle.TEXT])
    narrow.commit([], [383])  # a token that the draft has no embedding of
    q = narrow.draft(1, [1.0], [0.5]).q
    assert q.shape == (1, 384)
    assert not np.array(q)[:, oracle.VOCABULARY :].any()


def test_positions_past_the_trained_ones_run(tmp_path):
    model = MlxBackend().load(factory.tiny_llama(tmp_path / "a", positions=32))
    rows = [Segment([4 + place % 300 for place in range(length)]) for length in (1100, 4)]
    drafter = oracle.drafter(model, [Segment([*row.tokens, 9]) for row in rows])
    assert len(oracle.drafted(drafter, 5)) == 5


def test_rows_must_be_complete_and_end_alike(pair, views):
    drafter = oracle.drafter(pair[1], views)
    with pytest.raises(ValueError, match="same token"):
        drafter.extend([Segment([5]), Segment([6]), Segment([5])])
    with pytest.raises(ValueError, match="1 segments for 3 branches"):
        drafter.extend([Segment([5])])
