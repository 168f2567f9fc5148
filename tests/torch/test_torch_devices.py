"""Attention by blocks stays on its device: it mixes no other arrays with those of `meta`."""

from functools import partial

import array_api_compat.torch as xp
import pytest
import torch

from mmspec.decoding.block_attention import BLOCK, attend, chain_places, tree_places
from mmspec.decoding.draft import DeviceDraft

META = torch.device("meta")


@pytest.mark.parametrize("is_tree", [False, True])
@pytest.mark.parametrize("multiple", [1, 4])
def test_every_array_is_where_the_queries_are(is_tree, multiple):
    count = partial(torch.arange, device=META)
    queries = torch.zeros(2, 3, 4, 8, device=META)
    keys, values = torch.zeros(2, 2, 3 * BLOCK, 8, device=META)
    if is_tree:
        draft = DeviceDraft(count(3), 3, parents=count(3) - 1)
        tree = draft.ancestry(xp)
        places = tree_places(xp, count, tree, BLOCK + 7, 3 * BLOCK, multiple, 1)
    else:
        places = chain_places(xp, count, count(4) + BLOCK, 3 * BLOCK, multiple)
    found = attend(xp, queries, keys, values, places)
    assert found.device.type == META.type
    assert found.shape == queries.shape
