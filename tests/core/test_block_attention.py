"""Attention by blocks, held to a plain softmax in float64, and to its own bits."""

import numpy as np
import pytest

from mmspec.decoding.block_attention import BLOCK, attend, chain_places, tree_places, whole_blocks
from mmspec.decoding.draft import Ancestry
from mmspec.decoding.exact_rows import ExactRows

HEADS, GROUP, SIZE = 2, 3, 8


def drawn(columns, rows, seed=0):
    rng = np.random.default_rng(seed)
    queries = rng.normal(size=(HEADS, GROUP, rows, SIZE)).astype(np.float32)
    keys, values = rng.normal(size=(2, HEADS, columns, SIZE)).astype(np.float32)
    return queries, keys, values


def oracle(queries, keys, values, visible):
    """Softmax attention in float64; visible: [m, C]."""
    wide = [array.astype(np.float64) for array in (queries, keys, values)]
    scores = np.einsum("hgmd,hcd->hgmc", *wide[:2]) * SIZE**-0.5
    scores = np.where(visible, scores, -np.inf)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return np.einsum("hgmc,hcd->hgmd", weights / weights.sum(-1, keepdims=True), wide[2])


def chain(start, rows, columns=None):
    own = np.arange(start, start + rows)
    return chain_places(np, np.arange, own, columns or start + rows, 1)


def ancestry(parents):
    """Of the root and the nodes after it, as a draft gives it."""
    visible = np.zeros((len(parents) + 1, len(parents) + 1), bool)
    visible[0, 0] = True
    for node, parent in enumerate(parents, start=1):
        visible[node] = visible[parent + 1]
        visible[node, node] = True
    return Ancestry(visible, visible.sum(-1) - 1)


@pytest.mark.parametrize("start", [0, 1, BLOCK - 3, BLOCK, 3 * BLOCK - 1])
@pytest.mark.parametrize("rows", [1, 2, 5])
def test_a_chain_attends_to_all_before_it(start, rows):
    columns = whole_blocks(start + rows)
    arrays = drawn(columns, rows)
    visible = np.arange(columns) <= np.arange(start, start + rows)[:, None]
    found = attend(np, *arrays, chain(start, rows))
    np.testing.assert_allclose(found, oracle(*arrays, visible), atol=2e-6)


@pytest.mark.parametrize("start", [0, 7, BLOCK - 2, 2 * BLOCK])
@pytest.mark.parametrize("multiple", [1, 4])
def test_a_node_attends_to_its_ancestors_alone(start, multiple):
    tree = ancestry([-1, -1, 0, 2, 1, 3, 3])
    rows = len(tree.visible)
    columns = whole_blocks(start + rows)
    arrays = drawn(columns, rows, seed=start)
    visible = np.zeros((rows, columns), bool)
    visible[:, :start] = True
    visible[:, start : start + rows] = tree.visible
    blocks = columns // BLOCK - start // BLOCK
    places = tree_places(np, np.arange, tree, start, start + rows, multiple, blocks)
    found = attend(np, *arrays, places)
    np.testing.assert_allclose(found, oracle(*arrays, visible), atol=2e-6)


def test_blocks_that_nothing_sees_change_no_bit():
    queries, keys, values = drawn(7 * BLOCK, 2)
    whole = attend(np, queries, keys, values, chain(BLOCK + 3, 2, 7 * BLOCK))
    for columns in (2 * BLOCK, 3 * BLOCK, 5 * BLOCK):
        places = chain(BLOCK + 3, 2, columns)
        part = attend(np, queries, keys[:, :columns], values[:, :columns], places)
        assert part.tobytes() == whole.tobytes()


@pytest.mark.parametrize("rows", [ExactRows(1, 4), ExactRows(2, 4), ExactRows(8, 8)])
def test_tiles_hold_every_row_once_and_only_whole_multiples(rows):
    for count in range(1, 20):
        tiles = [*rows.tiles(count)]
        assert [row for tile in tiles for row in range(tile.start, tile.stop)] == [*range(count)]
        for tile in tiles:
            fed = tile.stop - tile.start
            assert tile.indices[:fed] == [*range(tile.start, tile.stop)]
            assert set(tile.indices[fed:]) <= {tile.start}
            assert len(tile.indices) % rows.multiple == 0
            assert len(tile.indices) <= rows.most
            assert len(tile.indices) - fed < rows.multiple
