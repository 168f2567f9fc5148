"""The gated delta rule (Yang et al. 2024): a state that each row decays and corrects.

`advance` is the recurrence, row by row, which defines decoding; `in_chunks` computes the same sums
in products of matrices, for prompts.

Each function takes `xp`, a namespace that follows the Python array API standard, and arrays of
float32.

Axis names: G heads of keys, g heads of values for each, m rows, K width of keys, V of values.
States are [G, g, K, V].
"""

from typing import Any, NamedTuple

Array = Any  # whatever `xp` calls an array

CHUNK = 64
"""Rows of a chunk."""


class Changes(NamedTuple):
    """What rows do to a state."""

    keys: Array
    """[m, G, 1, 1, K]"""
    values: Array
    """[m, G, g, 1, V]"""
    decays: Array
    """[m, G, g, 1, 1] logarithms of what a state is multiplied by."""
    rates: Array
    """[m, G, g, 1, 1] the share of a correction that is made."""

    def at(self, rows: Any) -> "Changes":
        """The parts of a row, without m, or of a slice of rows."""
        return Changes(*(part[rows] for part in self))


def advance(xp: Any, state: Array, key: Array, value: Array, decay: Array, rate: Array) -> Array:
    """The state [G, g, K, V] after a row, whose parts are those of `Changes` without m."""
    state = state * xp.exp(decay)
    correction = (value - xp.matmul(key, state)) * rate
    return state + xp.permute_dims(key, (0, 1, 3, 2)) * correction


def in_chunks(
    xp: Any, order: Array, state: Array, queries: Array, changes: Changes
) -> tuple[Array, Array]:
    """The outputs [m, G, g, 1, V] of rows with `queries` [m, G, 1, 1, K], and the state after them.

    order: the integers below CHUNK, on the device.
    """
    outputs = []
    for start in range(0, len(queries), CHUNK):
        part = slice(start, start + CHUNK)
        output, state = _chunk(xp, order, state, queries[part], changes.at(part))
        outputs.append(output)
    return xp.concat(outputs, axis=0), state


def _chunk(
    xp: Any, order: Array, state: Array, queries: Array, changes: Changes
) -> tuple[Array, Array]:
    count = len(queries)
    order = order[:count]
    q, k, v, decay, rate = (_rows(xp, part) for part in (queries, *changes))
    decay = xp.cumsum(decay, -2)
    across = xp.permute_dims(decay, (0, 1, 3, 2))
    is_visible = order[:, None] >= order
    between = xp.exp(xp.where(is_visible, decay - across, float("-inf")))
    k_columns = xp.permute_dims(k, (0, 1, 3, 2))
    system = xp.where(order[:, None] > order, xp.matmul(k, k_columns) * between * rate, 0.0)
    whole = xp.exp(decay)
    corrections = (v - xp.matmul(k * whole, state)) * rate
    corrections = xp.matmul(_inverse(xp, order, system), corrections)
    output = xp.matmul(q * whole, state)
    output = output + xp.matmul(xp.matmul(q, k_columns) * between, corrections)
    remainder = xp.exp(decay[..., -1:, :] - decay)
    state = state * whole[..., -1:, :]
    state = state + xp.matmul(xp.permute_dims(k * remainder, (0, 1, 3, 2)), corrections)
    return xp.permute_dims(output, (2, 0, 1, 3))[..., None, :], state


def _rows(xp: Any, part: Array) -> Array:
    """[m, G, g, 1, X] as [G, g, m, X]."""
    return xp.permute_dims(part[..., 0, :], (1, 2, 0, 3))


def _inverse(xp: Any, order: Array, system: Array) -> Array:
    """The inverse of I + system [..., m, m], which is below the diagonal.

    Blocks on the diagonal are inverted, then joined in pairs: A 0, B C becomes A' 0, -C'BA' C'.
    """
    is_diagonal = order[:, None] == order
    inverse = xp.where(is_diagonal, 1.0, xp.zeros_like(system))
    size = 1
    while size < len(order):
        pair, half = order // (2 * size), order // size
        is_link = (pair[:, None] == pair) & (half[:, None] != half)
        link = xp.where(is_link, system, 0.0)
        inverse = inverse - xp.matmul(xp.matmul(inverse, link), inverse)
        size *= 2
    return inverse
