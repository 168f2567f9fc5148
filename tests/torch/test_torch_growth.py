"""What growing and keeping trees needs of PyTorch."""

import pytest

from mmspec.decoding.noise import NO_NOISE
from mmspec.decoding.sampling import GREEDY
from mmspec.decoding.tree import Tree
from mmspec_torch.network.cache import Cache
from support import sequence_helpers as helpers
from support.faults import Fault


def test_a_gather_that_broke_voids_the_draft(pair, views, monkeypatch):
    """Its columns may have moved; the sequence never had them."""
    target = helpers.target(pair[0], views[0])
    expected = helpers.plain(helpers.target(pair[0], views[0]), 8)
    drafter = pair[1].open_branches(len(views), 320, GREEDY, Tree((3, 2)))
    drafter.extend(views)
    verdict = target.verify(helpers.draft(drafter, 2, 1.0, 0.0, 0.0), NO_NOISE)
    path = [2, verdict.parents.index(2)]
    original = Cache.gather

    def breaking(*given):
        original(*given)
        raise Fault

    monkeypatch.setattr(Cache, "gather", breaking)
    with pytest.raises(Fault):
        target.commit(path, 5)
    with pytest.raises(ValueError, match="verified just now"):
        target.commit(path, 5)
    assert helpers.plain(target, 8) == expected
