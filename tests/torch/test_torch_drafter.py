"""The drafter's rows: padded, pending, rewound, void."""

import numpy as np
import pytest
import torch
import torch_oracle as oracle

import factory
from mmspec.loop import decode
from mmspec.sampling import GREEDY, Sampling
from mmspec.seam import Segment
from mmspec_torch.backend import TorchBackend
from mmspec_torch.llama import Llama


@pytest.mark.parametrize("letters", [[0], [1], [0, 1], [1, 0], [2, 1, 0], [0, 1, 2, 1]])
@pytest.mark.parametrize("gamma", [1, 5])
def test_speculative_equals_plain(pair, views, letters, gamma):
    expected = oracle.plain(oracle.opened(pair[0], views[0]), 50)
    drafter = oracle.drafting(pair[1], [views[letter] for letter in letters])
    done = oracle.rounds(oracle.opened(pair[0], views[0]), drafter, 50, gamma)
    assert oracle.spoken(done) == expected
    assert 0 < sum(each.accepted for each in done) < sum(each.drafted for each in done)


def test_rows_of_a_batch_say_what_each_says_alone(pair, views, monkeypatch):
    """Over two turns that lengthen the rows unevenly, with padding and pending tokens."""
    seen = []
    original = Llama.logits
    monkeypatch.setattr(Llama, "logits", lambda *given: seen.append(original(*given)) or seen[-1])

    def run(chosen):
        seen.clear()
        drafter = oracle.drafting(pair[1], chosen)
        for tokens in ([60, 61], [62]):
            drafter.draft(1, _even(chosen), ())
            drafter.commit([], tokens)
        drafter.extend(chosen)
        drafter.draft(1, _even(chosen), ())
        return drafter.row_lengths, torch.stack(seen)

    lengths, together = run(views)
    for row, view in enumerate(views):
        length, alone = run([view])
        assert length == [lengths[row]] == [2 * len(view.tokens) + 3]
        np.testing.assert_allclose(together[:, row], alone[:, 0], atol=1e-5)


def test_weights_may_change_between_drafts(pair, views):
    alone = [oracle.drafting(pair[1], [view]).draft(4, (1.0,), ()).ids.tolist() for view in views]
    assert len({tuple(ids) for ids in alone}) > 1
    together = oracle.drafting(pair[1], views)
    for turn in (0, 1, 2, 0):
        weights = [float(row == turn) for row in range(len(views))]
        assert together.draft(4, weights, ()).ids.tolist() == alone[turn]


def _even(rows):
    return [1 / len(rows)] * len(rows)


@pytest.mark.parametrize("sampling", [GREEDY, oracle.WARM], ids=["greedy", "drawn"])
def test_a_twin_is_always_accepted_even_after_rejections(pair, views, sampling):
    """A stale draft cache costs acceptance alone, so nothing else shows it."""
    seed = None if sampling.greedy else 3
    target = oracle.opened(pair[0], views[0], sampling)
    twin = pair[0].open_drafter(2, 320, sampling)
    twin.extend(views[:2])
    first = oracle.rounds(target, twin, 40, seed=seed)
    assert any(each.accepted < each.drafted for each in first)

    class OnlyM(oracle.Equal):
        def weights(self, row_lengths, gamma):
            return [1.0, 0.0]

    later = list(decode(target, twin, OnlyM(), gamma=4, max_tokens=40, seed=seed))
    assert all(each.accepted == each.drafted for each in later)


def test_a_drafter_catches_up_after_plain_rounds(pair, views):
    target, twin = oracle.opened(pair[0], views[0]), oracle.drafting(pair[0], views[:1])
    for token in oracle.plain(target, 7):
        twin.commit([], [token])
    assert all(each.accepted == each.drafted for each in oracle.rounds(target, twin, 20))


def test_a_void_draft_leaves_no_trace(pair, views):
    drafter, cold = (oracle.drafting(pair[1], views) for _ in range(2))
    oracle.drafted(drafter, 5)
    oracle.drafted(drafter, 3)
    drafter.commit([], [60, 61])
    cold.commit([], [60, 61])
    oracle.drafted(drafter, 2)
    assert oracle.drafted(drafter, 6) == oracle.drafted(cold, 6)


def test_a_draft_that_broke_voids_the_one_before(pair, views, monkeypatch):
    drafter = oracle.drafting(pair[1], views)
    oracle.drafted(drafter, 5)
    with monkeypatch.context() as patch:
        oracle.fail_at(patch, 3)
        with pytest.raises(oracle.Fault):
            oracle.drafted(drafter, 5)
    with pytest.raises(ValueError, match="none of a draft 0 deep"):
        drafter.commit([0], [60, 61])


def test_rewinding_a_drafter_equals_a_cold_one(pair, views):
    drafter, cold = (oracle.drafting(pair[1], views) for _ in range(2))
    expected, start = oracle.drafted(cold, 6), drafter.length
    oracle.rounds(oracle.opened(pair[0], views[0]), drafter, 20)
    drafter.extend(views)
    drafter.rewind(start)
    assert drafter.row_lengths == cold.row_lengths
    assert oracle.drafted(drafter, 6) == expected


@pytest.mark.parametrize("gamma", [1, 3])
def test_seams_at_any_draft_length_keep_the_draft_cache_right(pair, views, gamma):
    """A cold drafter over the same tokens drafts the same."""
    target, drafter = oracle.opened(pair[0], views[0]), oracle.drafting(pair[1], views)
    said = oracle.spoken(oracle.rounds(target, drafter, 25, gamma))
    cold = oracle.drafting(pair[1], views)
    cold.commit([], said)
    assert drafter.length == cold.length
    assert oracle.drafted(drafter, 6) == oracle.drafted(cold, 6)


def test_drafted_ids_stay_in_the_shared_vocabulary(tmp_path, pair):
    wide = TorchBackend().load(factory.tiny_llama(tmp_path / "a", vocab_size=384), device="cpu")
    drafter = wide.open_drafter(2, 320, Sampling(temperature=50.0))
    drafter.extend([oracle.TEXT, oracle.TEXT])
    draft = drafter.draft(40, [0.5, 0.5], [i / 40 for i in range(40)])
    assert draft.ids.max() < 320
    assert draft.q.shape == (40, 320)
    narrow = pair[0].open_drafter(1, 384, oracle.WARM)
    narrow.extend([oracle.TEXT])
    q = narrow.draft(3, [1.0], [0.1, 0.5, 0.9]).q
    assert q.shape == (3, 384)
    assert not q[:, 320:].any()
    narrow.commit([], [383])
    assert narrow.draft(1, [1.0], [0.5]).size == 1


def test_rows_must_end_alike(pair, views):
    drafter = oracle.drafting(pair[1], views)
    with pytest.raises(ValueError, match="same token"):
        drafter.extend([Segment([5]), Segment([6]), Segment([5])])
    with pytest.raises(ValueError, match="3 branches"):
        drafter.extend([Segment([5])])
