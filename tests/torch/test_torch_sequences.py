"""Caches, rows and rounds: whatever happened before, a sequence continues like a cold one."""

from collections import Counter

import factory
import numpy as np
import pytest
import torch
import torch_oracle as oracle

from mmspec.loop import decode
from mmspec.sampling import GREEDY, Sampling
from mmspec.seam import Segment
from mmspec_torch.backend import TorchBackend
from mmspec_torch.cache import STEP
from mmspec_torch.llama import Llama
from mmspec_torch.llava import TorchFeatures

WARM = Sampling(temperature=0.9)
TEXT = Segment([1, 20, 21, 22, 40, 41, 42])


class Equal:
    """Every branch weighs the same."""

    def weights(self, row_lengths, gamma):
        return [1 / len(row_lengths)] * len(row_lengths)


@pytest.fixture(scope="module")
def pair(pair_paths):
    return [TorchBackend().load(path, device="cpu") for path in pair_paths]


@pytest.fixture(scope="module")
def views(pair):
    """One prompt of two images as M, T and P see it."""
    images = [pair[0].encode(image) for image in oracle.pixels(32, 2)]
    whole = oracle.prompt(images)
    pooled = oracle.prompt([image.pooled(4) for image in images])
    return [whole, oracle.without_images(whole), pooled]


def drafting(model, views, sampling=GREEDY):
    drafter = model.open_drafter(len(views), 320, sampling)
    drafter.extend(views)
    return drafter


def drafted(drafter, k, draws=()):
    rows = len(drafter.row_lengths)
    return drafter.draft(k, [1 / rows] * rows, draws).ids.tolist()


def rounds(target, drafter, count, gamma=4, seed=None):
    return list(decode(target, drafter, Equal(), gamma=gamma, max_tokens=count, seed=seed))


def spoken(all_rounds):
    return [token for each in all_rounds for token in each.tokens]


# The target's sequence


@pytest.mark.parametrize("cut", [0, 2, 5, 12, 19, 22, 23, 38, 42, 45])
def test_after_a_rewind_to_anywhere_it_continues_like_a_cold_sequence(pair, views, cut):
    segment = views[0]
    target = oracle.opened(pair[0], segment)
    expected, said = target.logits(), oracle.plain(target, 3)
    target.rewind(cut)
    assert target.length == cut
    target.extend(Segment([50, 51]))
    target.extend(Segment([52]))
    cold = oracle.opened(pair[0], _beginning(segment, said, cut))
    np.testing.assert_allclose(target.logits(), cold.logits(), atol=1e-5)
    target.rewind(0)
    target.extend(segment)
    np.testing.assert_allclose(target.logits(), expected, atol=1e-5)


def _beginning(segment, said, cut):
    """The first `cut` tokens, the last image perhaps not whole, then three more of text."""
    tokens = [*segment.tokens, *said][:cut]
    left, images = tokens.count(oracle.IMAGE), []
    for image in segment.features:
        images += [TorchFeatures(image.rows[:left])] if left else []
        left = max(left - image.positions, 0)
    return Segment([*tokens, 50, 51, 52], images)


def test_a_rewound_prompt_equals_its_beginning(pair):
    target = oracle.opened(pair[0], TEXT)
    for length in range(len(TEXT.tokens), 0, -1):
        target.rewind(length)
        cold = oracle.opened(pair[0], Segment(TEXT.tokens[:length]))
        np.testing.assert_allclose(target.logits(), cold.logits(), atol=1e-5)


@torch.inference_mode()
def test_a_sequence_ending_in_an_image_can_be_asked(pair, pair_paths, views):
    end = list(views[0].tokens).index(oracle.NEWLINE)
    target = oracle.opened(pair[0], views[0])
    target.rewind(end)
    expected = oracle.transformers_model(pair_paths[0])(
        input_ids=torch.tensor([views[0].tokens[:end]]),
        pixel_values=torch.tensor(oracle.pixels(32, 2)[:1]),
    )
    np.testing.assert_allclose(target.logits(), expected.logits[0, -1], atol=2e-5)


def test_nothing_may_be_appended_to_nothing(pair):
    target = pair[0].open_target(GREEDY)
    target.extend(Segment([]))
    target.extend(TEXT)
    np.testing.assert_array_equal(target.logits(), oracle.opened(pair[0], TEXT).logits())


def test_rejected_drafts_leave_nothing(pair, views):
    """Verifying a stranger's draft and keeping none of it equals never having seen it."""
    target, alone = (oracle.opened(pair[0], views[0]) for _ in range(2))
    stranger = drafting(pair[1], views[1:2])
    for _ in range(6):
        token = target.verify(stranger.draft(5, [1.0], ()), ()).fallback[0]
        target.commit([], token)
        stranger.commit([], [token])
        np.testing.assert_allclose(target.logits(), _after(alone, token), atol=1e-5)


def _after(target, token):
    target.commit([], target.verify(None, ()).fallback[0])
    return target.logits()


def test_growing_past_a_step_of_the_cache_and_the_angles_changes_nothing(tmp_path):
    path = factory.tiny_llama(tmp_path / "a", positions=2 * STEP + 64)
    model = TorchBackend().load(path, device="cpu")
    tokens = [4 + i * i % 300 for i in range(2 * STEP + 20)]
    slow = oracle.opened(model, Segment(tokens[: STEP - 3]))
    for token in tokens[STEP - 3 :]:
        slow.extend(Segment([token]))
    np.testing.assert_allclose(
        slow.logits(), oracle.opened(model, Segment(tokens)).logits(), atol=1e-4
    )


def test_positions_past_the_trained_ones_still_run(tmp_path):
    path = factory.tiny_llama(tmp_path / "a", positions=32)
    model = TorchBackend().load(path, device="cpu")
    drafter = drafting(model, [Segment([4 + i % 300 for i in range(700)])])
    assert len(drafted(drafter, 5)) == 5


@pytest.mark.parametrize(
    "segment",
    [
        Segment([1, oracle.IMAGE, 5]),
        Segment([1, 5], ["one"]),
        Segment([oracle.IMAGE] * 8 + [7] + [oracle.IMAGE] * 8, ["one"]),
    ],
    ids=["no image", "no positions", "split"],
)
def test_image_tokens_that_are_not_the_images_positions_are_refused(pair, views, segment):
    images = views[0].features[: len(segment.features)]
    target = oracle.opened(pair[0], TEXT)
    before = target.logits()
    with pytest.raises(ValueError, match="image tokens"):
        target.extend(Segment(segment.tokens, images))
    np.testing.assert_array_equal(target.logits(), before)


# The drafter's rows


@pytest.mark.parametrize("letters", [[0], [1], [0, 1], [1, 0], [2, 1, 0], [0, 1, 2, 1]])
@pytest.mark.parametrize("gamma", [1, 5])
def test_speculative_equals_plain(pair, views, letters, gamma):
    expected = oracle.plain(oracle.opened(pair[0], views[0]), 50)
    drafter = drafting(pair[1], [views[letter] for letter in letters])
    done = rounds(oracle.opened(pair[0], views[0]), drafter, 50, gamma)
    assert spoken(done) == expected
    assert 0 < sum(each.accepted for each in done) < sum(each.drafted for each in done)


def test_rows_of_a_batch_say_what_each_says_alone(pair, views, monkeypatch):
    """Over two turns that lengthen the rows unevenly, with padding and pending tokens."""
    seen = []
    original = Llama.logits
    monkeypatch.setattr(Llama, "logits", lambda *given: seen.append(original(*given)) or seen[-1])

    def run(chosen):
        seen.clear()
        drafter = drafting(pair[1], chosen)
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


def _even(rows):
    return [1 / len(rows)] * len(rows)


@pytest.mark.parametrize("sampling", [GREEDY, WARM], ids=["greedy", "drawn"])
def test_a_twin_is_always_accepted_even_after_rejections(pair, views, sampling):
    """A stale draft cache costs acceptance alone, so nothing else shows it."""
    seed = None if sampling.greedy else 3
    target = oracle.opened(pair[0], views[0], sampling)
    twin = pair[0].open_drafter(2, 320, sampling)
    twin.extend(views[:2])
    first = rounds(target, twin, 40, seed=seed)
    assert any(each.accepted < each.drafted for each in first)

    class OnlyM(Equal):
        def weights(self, row_lengths, gamma):
            return [1.0, 0.0]

    later = list(decode(target, twin, OnlyM(), gamma=4, max_tokens=40, seed=seed))
    assert all(each.accepted == each.drafted for each in later)


def test_a_drafter_catches_up_after_plain_rounds(pair, views):
    target, twin = oracle.opened(pair[0], views[0]), drafting(pair[0], views[:1])
    for token in oracle.plain(target, 7):
        twin.commit([], [token])
    assert all(each.accepted == each.drafted for each in rounds(target, twin, 20))


def test_a_void_draft_leaves_no_trace(pair, views):
    drafter, cold = (drafting(pair[1], views) for _ in range(2))
    drafted(drafter, 5)
    drafted(drafter, 3)
    drafter.commit([], [60, 61])
    cold.commit([], [60, 61])
    drafted(drafter, 2)
    assert drafted(drafter, 6) == drafted(cold, 6)


def test_a_draft_that_broke_voids_the_one_before(pair, views, monkeypatch):
    drafter = drafting(pair[1], views)
    drafted(drafter, 5)
    with monkeypatch.context() as patch:
        _fail_at(patch, 3)
        with pytest.raises(Fault):
            drafted(drafter, 5)
    with pytest.raises(ValueError, match="chain of 0"):
        drafter.commit([0], [60, 61])


def test_rewinding_a_drafter_equals_a_cold_one(pair, views):
    drafter, cold = (drafting(pair[1], views) for _ in range(2))
    expected, start = drafted(cold, 6), drafter.length
    rounds(oracle.opened(pair[0], views[0]), drafter, 20)
    drafter.extend(views)
    drafter.rewind(start)
    assert drafter.row_lengths == cold.row_lengths
    assert drafted(drafter, 6) == expected


@pytest.mark.parametrize("gamma", [1, 3])
def test_seams_at_any_draft_length_keep_the_draft_cache_right(pair, views, gamma):
    """A cold drafter over the same tokens drafts the same."""
    target, drafter = oracle.opened(pair[0], views[0]), drafting(pair[1], views)
    said = spoken(rounds(target, drafter, 25, gamma))
    cold = drafting(pair[1], views)
    cold.commit([], said)
    assert drafter.length == cold.length
    assert drafted(drafter, 6) == drafted(cold, 6)


def test_drafted_ids_stay_in_the_shared_vocabulary(tmp_path, pair):
    wide = TorchBackend().load(factory.tiny_llama(tmp_path / "a", vocab_size=384), device="cpu")
    drafter = wide.open_drafter(2, 320, Sampling(temperature=50.0))
    drafter.extend([TEXT, TEXT])
    draft = drafter.draft(40, [0.5, 0.5], [i / 40 for i in range(40)])
    assert draft.ids.max() < 320
    assert draft.q.shape == (40, 320)
    narrow = pair[0].open_drafter(1, 384, WARM)
    narrow.extend([TEXT])
    q = narrow.draft(3, [1.0], [0.1, 0.5, 0.9]).q
    assert q.shape == (3, 384)
    assert not q[:, 320:].any()
    narrow.commit([], [383])
    assert narrow.draft(1, [1.0], [0.5]).size == 1


def test_rows_must_end_alike(pair, views):
    drafter = drafting(pair[1], views)
    with pytest.raises(ValueError, match="same token"):
        drafter.extend([Segment([5]), Segment([6]), Segment([5])])
    with pytest.raises(ValueError, match="3 branches"):
        drafter.extend([Segment([5])])


# Rounds


@pytest.mark.parametrize("sampling", [GREEDY, WARM], ids=["greedy", "drawn"])
def test_each_round_reads_from_the_device_once(pair, views, sampling, monkeypatch):
    target = oracle.opened(pair[0], views[0], sampling)
    drafter = drafting(pair[1], views, sampling)
    calls = Counter()
    for name in ("tolist", "item", "__bool__", "__int__", "__float__", "__index__", "cpu", "numpy"):
        original = getattr(torch.Tensor, name)

        def spy(self, *given, _name=name, _original=original, **named):
            calls[_name] += 1
            return _original(self, *given, **named)

        monkeypatch.setattr(torch.Tensor, name, spy)
    done = rounds(target, drafter, 60, seed=None if sampling.greedy else 1)
    assert calls == {"tolist": len(done)}


class Fault(BaseException):
    """Raised where an interrupt would be."""


@pytest.mark.parametrize("sampling", [GREEDY, WARM], ids=["greedy", "drawn"])
@pytest.mark.parametrize("call", range(1, 30, 3))
def test_a_fault_in_any_forward_leaves_both_sequences_as_they_were(
    pair, views, sampling, call, monkeypatch
):
    seed = None if sampling.greedy else 5
    target = oracle.opened(pair[0], views[0], sampling)
    drafter = drafting(pair[1], views, sampling)
    expected = spoken(rounds(target, drafter, 30, seed=seed))

    target = oracle.opened(pair[0], views[0], sampling)
    drafter = drafting(pair[1], views, sampling)
    starts = target.length, drafter.length
    with monkeypatch.context() as patch:
        _fail_at(patch, call)
        with pytest.raises(Fault):
            _turn(target, drafter, views, seed)
    target.rewind(starts[0])
    drafter.rewind(starts[1])
    assert spoken(rounds(target, drafter, 30, seed=seed)) == expected


def _turn(target, drafter, views, seed):
    rounds(target, drafter, 12, seed=seed)
    target.extend(views[0])
    drafter.extend(views)
    rounds(target, drafter, 40, seed=seed)


def _fail_at(patch, call):
    original, calls = Llama._attend, Counter()

    def attend(*given):
        calls["all"] += 1
        if calls["all"] == 2 * call:
            raise Fault
        original(*given)

    patch.setattr(Llama, "_attend", attend)


def test_commits_that_follow_no_verification_are_refused(pair, views):
    target, drafter = oracle.opened(pair[0], views[0]), drafting(pair[1], views)
    with pytest.raises(ValueError, match="verified just now"):
        target.commit([], 5)
    with pytest.raises(ValueError, match="chain of 0"):
        drafter.commit([0], [5])
    draft = drafter.draft(2, [0.5, 0.25, 0.25], ())
    target.verify(draft, ())
    with pytest.raises(ValueError, match="chain"):
        target.commit([1], 5)
    with pytest.raises(ValueError, match="chain"):
        drafter.commit([0, 1, 2], [5, 6, 7])
    for sequence in (target, drafter):
        with pytest.raises(ValueError, match="cannot rewind"):
            sequence.rewind(sequence.length + 1)
    with pytest.raises(ValueError, match="empty sequence"):
        pair[0].open_target(GREEDY).verify(None, ())
    with pytest.raises(ValueError, match="empty sequence"):
        pair[0].open_drafter(1, 320, GREEDY).draft(1, [1.0], ())
