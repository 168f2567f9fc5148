"""Attention whose result for a row has the same bits whatever is fed beside it.

The keys are read in blocks at fixed absolute places. Each block gives a sum of its own, and the
sums are added as a binary tree over the blocks' numbers. A block that a row does not see adds exact
zeros, so the number of columns does not matter. A node of a tree reads the keys of its ancestors
where they would be in a chain.

A matrix product may still give a row other bits if it has another number of rows; `ExactRows` says
for which numbers it does not.

Each function takes `xp`, a namespace that follows the Python array API standard.

Axis names: G heads of keys, g heads of queries for each, m rows, D head size, C columns, B blocks
of BLOCK columns, T columns from the tail on.
"""

from dataclasses import dataclass
from math import inf
from typing import Any

Array = Any  # whatever `xp` calls an array

BLOCK = 64
"""Columns in a block of keys."""


@dataclass(frozen=True, slots=True)
class Places:
    """The places in their sequences of the m rows of one forward, and the columns of these."""

    own: Array
    """[m] the place of each row, which is the last one that it sees."""
    mask: Array
    """[m, C] float32, added to scores: 0 for the places that a row sees, else -inf."""
    multiple: int
    """Products of matrices have a multiple of this number of rows, as the forward has."""
    tail: int = 0
    """The first column of the block that contains the first row of a tree."""
    columns: Array | None = None
    """[m, T] for a tree: the column, counted from the tail, of each place that a row sees, and any
    column for later places. None if every place is its own column.
    """


def whole_blocks(columns: int) -> int:
    """The least multiple of BLOCK that is at least `columns`."""
    return -(-columns // BLOCK) * BLOCK


def chain_places(xp: Any, own: Array, end: int, multiple: int) -> Places:
    """Places of rows that are a chain, in a forward up to column `end`; own: [m] their places."""
    return Places(own, _mask(xp, own, whole_blocks(end)), multiple)


def tree_places(xp: Any, ancestry: Any, start: int, end: int, multiple: int) -> Places:
    """Places of m rows of a tree whose root is in column `start`, in a forward up to `end`.

    ancestry: an `Ancestry` of the m rows among the nodes fed so far.
    """
    own, visible, tail = ancestry.depths + start, whole_blocks(end), start // BLOCK * BLOCK
    columns = _tree_columns(xp, ancestry.visible, start - tail, visible - tail)
    return Places(own, _mask(xp, own, visible), multiple, tail, columns)


def _mask(xp: Any, own: Array, columns: int) -> Array:
    is_visible = xp.arange(columns) <= xp.expand_dims(own, axis=-1)
    zeros = xp.zeros(is_visible.shape, dtype=xp.float32)
    return xp.where(is_visible, zeros, -inf)


def _tree_columns(xp: Any, paths: Array, before: int, count: int) -> Array:
    """`Places.columns` [m, count] of a tree with `before` columns before it in the tail.

    paths: [m, n] which of n nodes are on the path to each row.
    """
    rows, nodes = paths.shape
    number = xp.arange(nodes)
    first = xp.argsort(xp.where(paths, number, number + nodes), axis=-1)
    shared = xp.broadcast_to(xp.arange(before), (rows, before))
    later = xp.zeros((rows, count - before - nodes))
    parts = [xp.astype(part, first.dtype) for part in (shared, first + before, later)]
    return xp.concat(parts, axis=-1)


def attend(xp: Any, queries: Array, keys: Array, values: Array, places: Places) -> Array:
    """Attention [G, g, m, D] of queries [G, g, m, D] to keys and values [G, C, D].

    Scores are rounded to the type of the queries, as in attention without a fused kernel. The
    softmax and the sums over blocks are in float32.
    """
    heads, group, rows, size = queries.shape
    flat = xp.reshape(queries, (heads, group * rows, size))
    scores = xp.matmul(flat, xp.permute_dims(keys, (0, 2, 1)))
    scores = xp.astype(xp.reshape(scores, (heads, group, rows, -1)), xp.float32) * size**-0.5
    scores = _by_place(xp, scores, places) + places.mask
    weights = xp.exp(scores - xp.max(scores, axis=-1, keepdims=True))
    blocks = (heads, group * rows, -1, BLOCK)
    blocked = xp.permute_dims(xp.reshape(weights, blocks), (0, 2, 1, 3))
    totals = xp.sum(blocked, axis=-1, keepdims=True)
    parts = _by_block(xp, xp.astype(weights, values.dtype), values, places)
    sums = _tree_sum(xp, xp.concat([xp.astype(parts, xp.float32), totals], axis=-1))
    attended = xp.reshape(sums[..., :size] / sums[..., size:], queries.shape)
    return xp.astype(attended, queries.dtype)


def _by_place(xp: Any, scores: Array, places: Places) -> Array:
    """Move the scores [G, g, m, C] of columns to the places of each row."""
    if places.columns is None:
        return scores
    before, after = scores[..., : places.tail], scores[..., places.tail :]
    index = xp.broadcast_to(places.columns, after.shape)
    return xp.concat([before, xp.take_along_axis(after, index, axis=-1)], axis=-1)


def _by_block(xp: Any, weights: Array, values: Array, places: Places) -> Array:
    """Weighted sums of values for each block [G, B, g m, D], of weights [G, g, m, C]."""
    if places.columns is None:
        return _shared(xp, weights, values)
    own = _own(xp, weights[..., places.tail :], values[:, places.tail :], places)
    if not places.tail:
        return own
    before = _shared(xp, weights[..., : places.tail], values[:, : places.tail])
    return xp.concat([before, own], axis=1)


def _shared(xp: Any, weights: Array, values: Array) -> Array:
    """The sums of blocks whose values are the same for all rows."""
    heads, group, rows, _ = weights.shape
    blocked = xp.reshape(weights, (heads, group * rows, -1, BLOCK))
    apart = xp.reshape(values, (heads, -1, BLOCK, values.shape[-1]))
    return xp.matmul(xp.permute_dims(blocked, (0, 2, 1, 3)), apart)


def _own(xp: Any, weights: Array, values: Array, places: Places) -> Array:
    """The sums of blocks in which each row has values of its own."""
    heads, group, rows, columns = weights.shape
    size, blocks = values.shape[-1], columns // BLOCK
    index = xp.reshape(places.columns, (-1,))
    gathered = xp.reshape(xp.take(values, index, axis=1), (heads, rows, blocks, BLOCK, size))
    apart = xp.reshape(weights, (heads, group, rows, blocks, BLOCK))
    apart = xp.permute_dims(apart, (0, 2, 3, 1, 4))
    padding = xp.zeros(
        (heads, rows, blocks, group * (places.multiple - 1), BLOCK), dtype=apart.dtype
    )
    sums = xp.matmul(xp.concat([apart, padding], axis=3), gathered)[:, :, :, :group]
    return xp.reshape(xp.permute_dims(sums, (0, 2, 3, 1, 4)), (heads, blocks, group * rows, size))


def _tree_sum(xp: Any, parts: Array) -> Array:
    """Sum [G, n, W] of parts [G, B, n, W], half plus half: zeros at the end change no bit of it."""
    heads, blocks, *rest = parts.shape
    width = 1 << (blocks - 1).bit_length()
    if width > blocks:
        zeros = xp.zeros((heads, width - blocks, *rest), dtype=parts.dtype)
        parts = xp.concat([parts, zeros], axis=1)
    while (half := parts.shape[1] // 2) > 0:
        parts = parts[:, :half] + parts[:, half:]
    return parts[:, 0]
