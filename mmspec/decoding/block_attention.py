"""Attention whose result for a row has the same bits whatever is fed beside it.

The keys are read in blocks at fixed absolute places. Each block gives a sum of its own, and the
sums are added as a binary tree over the blocks' numbers. A block that a row does not see adds exact
zeros, so the number of columns does not matter. A node of a tree reads the keys of its ancestors
where they would be in a chain.

A matrix product may still give a row other bits if it has another number of rows; `ExactRows` says
for which numbers it does not.

Each function takes `xp`, a namespace that follows the Python array API standard.

Axis names: G heads of keys, g heads of queries for each, m rows, D head size, C columns, a multiple
of BLOCK, T of them from the tail on.
"""

from dataclasses import dataclass, replace
from math import inf
from typing import Any

Array = Any  # whatever `xp` calls an array

BLOCK = 64
"""Columns in a block of keys."""


@dataclass(frozen=True, slots=True)
class Places:
    """The places in their sequences of the m rows of one forward, and the columns of these."""

    start: int
    """The place, and the column, of the first row."""
    own: Array
    """[m] the place of each row, which is the last one that it sees."""
    multiple: int
    """Products of matrices have a multiple of this number of rows, as the forward has."""
    columns: Array | None = None
    """[m, T] for a tree: the column, counted from the tail, of each place that a row sees, and any
    column for later places. None if every place is its own column.
    """

    @property
    def tail(self) -> int:
        """The first column of the block that contains `start`."""
        return self.start // BLOCK * BLOCK


def whole_blocks(columns: int) -> int:
    """The least multiple of BLOCK that is at least `columns`."""
    return -(-columns // BLOCK) * BLOCK


def tree_places(xp: Any, ancestry: Any, start: int, end: int, multiple: int) -> Places:
    """Places of m rows of a tree whose root is in column `start`, in a forward up to `end`.

    ancestry: an `Ancestry` of the m rows among the nodes fed so far.
    """
    places = Places(start, ancestry.depths + start, multiple)
    columns = _tree_columns(xp, ancestry.visible, start, whole_blocks(end) - places.tail)
    return replace(places, columns=columns)


def _tree_columns(xp: Any, paths: Array, start: int, count: int) -> Array:
    """`Places.columns` [m, count]; paths: [m, n] which of n nodes are on the path to each row."""
    (rows, nodes), before = paths.shape, start % BLOCK
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
    weights = _weights(xp, _by_place(xp, scores, places), places)
    shape = (heads, group, rows, -1, BLOCK)
    total = _tree_sum(xp, xp.sum(xp.reshape(weights, shape), axis=-1), axis=3)
    parts = _by_block(xp, xp.astype(weights, values.dtype), values, places)
    attended = _tree_sum(xp, xp.astype(parts, xp.float32), axis=3) / xp.expand_dims(total, axis=-1)
    return xp.astype(attended, queries.dtype)


def _by_place(xp: Any, scores: Array, places: Places) -> Array:
    """Move the scores [G, g, m, C] of columns to the places of each row."""
    if places.columns is None:
        return scores
    before, after = scores[..., : places.tail], scores[..., places.tail :]
    index = xp.broadcast_to(places.columns, after.shape)
    return xp.concat([before, xp.take_along_axis(after, index, axis=-1)], axis=-1)


def _weights(xp: Any, scores: Array, places: Places) -> Array:
    """Unnormalised softmax [G, g, m, C] of the places that each row sees."""
    number = xp.arange(scores.shape[-1])
    scores = xp.where(number <= xp.expand_dims(places.own, axis=-1), scores, -inf)
    return xp.exp(scores - xp.max(scores, axis=-1, keepdims=True))


def _by_block(xp: Any, weights: Array, values: Array, places: Places) -> Array:
    """Weighted sums of values for each block: [G, g, m, C / BLOCK, D]."""
    if places.columns is None:
        return _shared(xp, weights, values)
    own = _own(xp, weights[..., places.tail :], values[:, places.tail :], places)
    if not places.tail:
        return own
    before = _shared(xp, weights[..., : places.tail], values[:, : places.tail])
    return xp.concat([before, own], axis=3)


def _shared(xp: Any, weights: Array, values: Array) -> Array:
    """The sums of blocks whose values are the same for all rows."""
    heads, group, rows, columns = weights.shape
    size, blocks = values.shape[-1], columns // BLOCK
    flat = xp.reshape(weights, (heads, group * rows, blocks, BLOCK))
    blocked = xp.reshape(values, (heads, blocks, BLOCK, size))
    sums = xp.matmul(xp.permute_dims(flat, (0, 2, 1, 3)), blocked)
    return xp.reshape(xp.permute_dims(sums, (0, 2, 1, 3)), (heads, group, rows, blocks, size))


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
    return xp.permute_dims(sums, (0, 3, 1, 2, 4))


def _tree_sum(xp: Any, parts: Array, axis: int) -> Array:
    """Sum over an axis, pair by pair: zeros at the end change no bit of the result."""
    index = (slice(None),) * axis
    while (count := parts.shape[axis]) > 1:
        even = count // 2 * 2
        pairs = parts[(*index, slice(0, even, 2))] + parts[(*index, slice(1, even, 2))]
        parts = xp.concat([pairs, parts[(*index, slice(even, None))]], axis=axis)
    return xp.squeeze(parts, axis=axis)
