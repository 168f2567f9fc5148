"""Adaptive weights: which places count, and views without room."""

import numpy as np
import pytest

from mmspec.decoding.contract import Segment
from mmspec.decoding.draft import DeviceDraft
from mmspec.decoding.host_framework import HOST
from mmspec.decoding.loop import decode
from mmspec.draft_length.policy import FixedDraftLength
from mmspec.drafters.view_drafter import Tally
from support.scripted import ScriptedDrafter, ScriptedTarget

VIEWS = [[3, 1, 4, 1, 5], [9, 2, 5], [6, 5]]
EVEN = np.array([0.5, 0.5], dtype=np.float32)


def test_a_leaf_of_a_tree_does_not_count():
    p = np.full((3, 4), 0.01, dtype=np.float32)
    p[:, 0] = 0.97  # the target is sure of token 0; a branch predicts 1, and one 0
    q = np.stack([p[:, [1, 0, 2, 3]], p], axis=1)
    outputs = np.array([0, 1, -1])  # root, a node that was expanded, a leaf
    draft = DeviceDraft(
        np.arange(2), 2, np.array([-1, 0]), lambda: outputs, branch_probabilities=q[:2]
    )
    for path, counted in (([], 1), ([0], 2), ([0, 1], 2)):
        tally = Tally.of(HOST, 2).after(draft, np.log(p), path)
        assert tally.tokens == counted
        np.testing.assert_allclose(tally.weights(EVEN), [0.0, 1.0])


@pytest.mark.parametrize("adaptive", [False, True])
def test_views_without_room_get_no_weight_and_none_draft_without_any(adaptive):
    target = ScriptedTarget(vocabulary=11)
    drafter = ScriptedDrafter(3, vocabulary=11, adaptive=adaptive, positions=12)
    target.extend(Segment([VIEWS[0]]))
    drafter.extend([Segment([[*view, 7]]) for view in VIEWS])
    rounds = decode(target, drafter, FixedDraftLength(3), max_tokens=16)
    done = [(each, tuple(drafter.weights)) for each in rounds]
    lengths = [6, 4, 3]
    crowded = 0
    for each, weights in done[:-3]:  # the last ones draft less, for the answer ends
        room = [length + 3 <= 12 for length in lengths]
        assert bool(each.drafted) == any(room)
        if each.drafted:
            assert sum(weights) == pytest.approx(1, abs=1e-5)
            assert all(fits or not weight for weight, fits in zip(weights, room, strict=True))
            crowded += not all(room)
        lengths = [length + len(each.tokens) for length in lengths]
    assert crowded
    assert not any(room)
