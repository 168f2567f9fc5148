"""Attention whose result for a row has the same bits whatever is fed beside it.

The keys are read in blocks at fixed absolute places. Each block gives a sum of its own, and the
sums are added as a binary tree over the blocks' numbers. A block that a row does not see adds exact
zeros, so the number of columns does not matter. A node of a tree reads the keys of its ancestors
where they would be in a chain.

A matrix product may still give a row other bits if it has another number of rows; `ExactRows` says
for which numbers it does not.

Each function takes `xp`, a namespace that follows the Python array API standard, and arrays on one
device; `count(n)` makes the integers below n on it.

Axis names: G heads of keys, g heads of queries for each, m rows, D head size, C columns, B blocks
of BLOCK columns, T columns of the blocks that a tree's nodes are in.
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import inf
from typing import Any, NamedTuple

from mmspec.decoding.draft import Ancestry

Array = Any  # whatever `xp` calls an array

Count = Callable[[int], Array]

BLOCK = 64
"""Columns in a block of keys."""


class TreeBlocks(NamedTuple):
    """The blocks of keys that differ from row to row, because the rows are nodes of a tree."""

    columns: Array
    """[T] the columns of these blocks."""
    index: Array
    """[m, T] the index in `columns` of each place that a row sees; arbitrary for later places."""
    mask: Array
    """[m, T] like `Places.mask`, for the places of these blocks."""
    order: Array
    """[B] for each block its index among the B shared blocks and those of the tree after them."""


@dataclass(frozen=True, slots=True)
class Places:
    """The places in their sequences of the m rows of one forward, and the columns of these."""

    row_places: Array
    """[m] the place of each row, which is the last one that it sees."""
    mask: Array
    """[m, C] float32, added to scores: 0 for the columns that a row sees, else -inf."""
    multiple: int
    """Products of matrices have a multiple of this number of rows, as the forward has."""
    tree: TreeBlocks | None = None
    """What a tree's rows see from its root's block on; None if each place is its own column."""


def whole_blocks(columns: int) -> int:
    """The least multiple of BLOCK that is at least `columns`."""
    return -(-columns // BLOCK) * BLOCK


def chain_places(xp: Any, count: Count, row_places: Array, end: int, multiple: int) -> Places:
    """Places of rows that are a chain, in a forward up to column `end`; row_places: [m]."""
    return Places(row_places, _mask(xp, count(whole_blocks(end)), row_places), multiple)


def tree_places(
    xp: Any, count: Count, ancestry: Ancestry, start: Any, end: int, multiple: int, blocks: int
) -> Places:
    """Places of m rows of a tree whose root is in column `start`, in a forward up to `end`.

    ancestry: of the m rows among the nodes fed so far.  start: may be a number on the device.
    blocks: number of blocks from the root's on that contain all nodes.
    """
    row_places, tail = ancestry.depths + start, start // BLOCK
    number = count(whole_blocks(end))
    before = tail * BLOCK - 1 + xp.zeros_like(row_places)
    places = number[: blocks * BLOCK] + tail * BLOCK
    along = _nodes_along(xp, ancestry.visible, count(ancestry.visible.shape[1]))
    index = _node_columns(xp, along, places - start) + start - tail * BLOCK
    order = _order(xp, count(len(number) // BLOCK), tail, blocks)
    tree = TreeBlocks(places, index, _mask(xp, places, row_places), order)
    return Places(row_places, _mask(xp, number, before), multiple, tree)


def _mask(xp: Any, places: Array, row_places: Array) -> Array:
    is_visible = places <= xp.expand_dims(row_places, axis=-1)
    return xp.where(is_visible, xp.astype(is_visible, xp.float32) * 0, -inf)


def _nodes_along(xp: Any, paths: Array, number: Array) -> Array:
    """[m, n] the nodes on the path to each row, from the root on, then the others.

    paths: [m, n] which of the nodes with a number [n] are on the path to each row.
    """
    return xp.argsort(xp.where(paths, number, number + len(number)), axis=-1)


def _node_columns(xp: Any, along: Array, depths: Array) -> Array:
    """[m, T] the node at each depth [T] on the paths `along`; before the root, the depth itself."""
    node = xp.take(along, xp.clip(depths, 0, along.shape[1] - 1), axis=1)
    return xp.where(depths < 0, depths, xp.astype(node, depths.dtype))


def _order(xp: Any, number: Array, tail: Any, blocks: int) -> Array:
    """`TreeBlocks.order` if the tree's blocks begin with number `tail`; number: [B] integers."""
    is_tree = (number >= tail) & (number < tail + blocks)
    return xp.where(is_tree, number - tail + len(number), number)


def attend(xp: Any, queries: Array, keys: Array, values: Array, places: Places) -> Array:
    """Attention [G, g, m, D] of queries [G, g, m, D] to keys and values [G, C, D].

    Scores are rounded to the type of the queries, as in attention without a fused kernel. The
    softmax and the sums over blocks are in float32.
    """
    heads, group, rows, size = queries.shape
    flat = xp.reshape(queries, (heads, group * rows, size))
    scores = xp.matmul(flat, xp.permute_dims(keys, (0, 2, 1)))
    scores = xp.astype(xp.reshape(scores, (heads, group, rows, -1)), xp.float32) * size**-0.5
    sums = _tree_sum(xp, _block_sums(xp, scores, values, places))
    output = xp.reshape(sums[..., :size] / sums[..., size:], queries.shape)
    return xp.astype(output, queries.dtype)


def _block_sums(xp: Any, scores: Array, values: Array, places: Places) -> Array:
    """For each block the weighted sum of values, and the sum of weights [G, B, g m, D + 1]."""
    shared_scores, tree = scores + places.mask, places.tree
    highest = xp.max(shared_scores, axis=-1, keepdims=True)
    if tree is None:
        return _shared_sums(xp, xp.exp(shared_scores - highest), values)
    tree_scores = xp.take(scores, tree.columns, axis=-1)
    index = xp.broadcast_to(tree.index, tree_scores.shape)
    tree_scores = xp.take_along_axis(tree_scores, index, axis=-1) + tree.mask
    highest = xp.maximum(highest, xp.max(tree_scores, axis=-1, keepdims=True))
    tree_values = xp.take(values, tree.columns, axis=1)
    parts = [
        _shared_sums(xp, xp.exp(shared_scores - highest), values),
        _row_sums(xp, xp.exp(tree_scores - highest), tree_values, tree.index, places.multiple),
    ]
    return xp.take(xp.concat(parts, axis=1), tree.order, axis=1)


def _shared_sums(xp: Any, weights: Array, values: Array) -> Array:
    """The sums of blocks whose values are the same for all rows; weights: [G, g, m, C]."""
    heads, group, rows, _ = weights.shape
    weights = xp.reshape(weights, (heads, group * rows, -1, BLOCK))
    weights = xp.permute_dims(weights, (0, 2, 1, 3))
    values = xp.reshape(values, (heads, -1, BLOCK, values.shape[-1]))
    return _with_totals(xp, weights, xp.matmul(xp.astype(weights, values.dtype), values))


def _row_sums(xp: Any, weights: Array, values: Array, index: Array, multiple: int) -> Array:
    """The sums of blocks in which each row has values of its own; weights: [G, g, m, T]."""
    heads, group, rows, columns = weights.shape
    size, blocks = values.shape[-1], columns // BLOCK
    values = xp.take(values, xp.reshape(index, (-1,)), axis=1)
    values = xp.reshape(values, (heads, rows, blocks, BLOCK, size))
    weights = xp.reshape(weights, (heads, group, rows, blocks, BLOCK))
    weights = xp.permute_dims(weights, (0, 2, 3, 1, 4))
    factors = xp.astype(weights, values.dtype)
    padding = [xp.zeros_like(factors)] * (multiple - 1)
    sums = xp.matmul(xp.concat([factors, *padding], axis=3), values)[:, :, :, :group]
    sums = _with_totals(xp, weights, sums)
    shape = heads, blocks, group * rows, size + 1
    return xp.reshape(xp.permute_dims(sums, (0, 2, 3, 1, 4)), shape)


def _with_totals(xp: Any, weights: Array, sums: Array) -> Array:
    """Sums [..., D] in float32, and behind them the sums of weights [..., BLOCK]."""
    totals = xp.sum(weights, axis=-1, keepdims=True)
    return xp.concat([xp.astype(sums, xp.float32), totals], axis=-1)


def _tree_sum(xp: Any, parts: Array) -> Array:
    """Sum [G, n, W] of parts [G, B, n, W], half plus half: zeros at the end change no bit of it."""
    blocks = parts.shape[1]
    missing = (1 << (blocks - 1).bit_length()) - blocks
    if missing:
        parts = xp.concat([parts, xp.zeros_like(parts[:, :missing])], axis=1)
    while (half := parts.shape[1] // 2) > 0:
        parts = parts[:, :half] + parts[:, half:]
    return parts[:, 0]
