"""The target's cache: whatever happened before, it continues like a cold one."""

import numpy as np
import pytest
import torch
import torch_oracle as oracle

import factory
from mmspec.sampling import GREEDY
from mmspec.seam import Segment
from mmspec_torch.backend import TorchBackend
from mmspec_torch.cache import STEP
from mmspec_torch.llava import TorchFeatures


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
    target = oracle.opened(pair[0], oracle.TEXT)
    for length in range(len(oracle.TEXT.tokens), 0, -1):
        target.rewind(length)
        cold = oracle.opened(pair[0], Segment(oracle.TEXT.tokens[:length]))
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
    target.extend(oracle.TEXT)
    np.testing.assert_array_equal(target.logits(), oracle.opened(pair[0], oracle.TEXT).logits())


def test_rejected_drafts_leave_nothing(pair, views):
    """Verifying a stranger's draft and keeping none of it equals never having seen it."""
    target, alone = (oracle.opened(pair[0], views[0]) for _ in range(2))
    stranger = oracle.drafting(pair[1], views[1:2])
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
    drafter = oracle.drafting(model, [Segment([4 + i % 300 for i in range(700)])])
    assert len(oracle.drafted(drafter, 5)) == 5


@pytest.mark.parametrize(
    "segment",
    [
        Segment([1, oracle.IMAGE, 5], ["one"]),
        Segment([1, 5], ["one"]),
        Segment([oracle.IMAGE] * 8 + [7] + [oracle.IMAGE] * 8, ["one"]),
    ],
    ids=["too few", "none", "split"],
)
def test_image_tokens_that_are_not_the_images_positions_are_refused(pair, views, segment):
    images = views[0].features[: len(segment.features)]
    target = oracle.opened(pair[0], oracle.TEXT)
    before = target.logits()
    with pytest.raises(ValueError, match="image tokens"):
        target.extend(Segment(segment.tokens, images))
    np.testing.assert_array_equal(target.logits(), before)
