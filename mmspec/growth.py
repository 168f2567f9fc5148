"""How a drafted tree grows, written once for every backend and every kind of drafter.

A drafter that can say what follows each of several tokens at once, a `Frontier`, is asked level by
level.  All of it stays on the backend's device: only array operations are enqueued here, and
sizes alone are known on the host.

Shape letters: V vocabulary, w expanded nodes, c candidates of a level, C of all, n nodes kept.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from mmspec.maths import Array, Top
from mmspec.tree import Tree, shape


class Frontier(Protocol):
    """Says what follows the sequence, then what follows the nodes of one level after another.

    Where the tree's nodes see the same rows, a frontier may return one row broadcast to w.
    """

    def root(self) -> Array:
        """Probabilities [1, V], float32, of the token after the sequence.  Called first, once."""
        ...

    def expand(self, tokens: Array, parents: Array) -> Array:
        """Probabilities [w, V], float32, of what follows each of w nodes of the next level.

        tokens: [w].  parents: [w] the place of each one's parent among the nodes of the call
        before; all 0 in the first call, where the parent is the root.
        """
        ...


@dataclass(frozen=True, slots=True)
class Arrays:
    """What growth needs of a framework."""

    xp: Any
    """A namespace as in `mmspec.maths`."""
    top: Top
    """The largest entries [..., count] of p [..., V], in [0, 1], in descending order, and their
    indices; of equals the lowest index first."""
    integers: Callable[[Sequence[int]], Array]
    """Brings integers [n], signed, to the device."""


class Grown(NamedTuple):
    """A drafted tree on the device, parents before children, likelier siblings first."""

    ids: Array
    """[n] the tokens."""
    parents: Array
    """[n] the node that each follows, -1 for the root."""
    depth: int
    """Levels: a bound on the length of a path."""


def grow(arrays: Arrays, frontier: Frontier, tree: Tree, k: int) -> Grown:
    """Grow a tree whose paths have at most k tokens (k >= 1).

    Every node is one of its parent's likeliest tokens and never drawn: a point mass, which
    `maths.judge_tree` takes it for.
    """
    build = _static if tree.branching else _dynamic
    return build(arrays, frontier, tree, tree.depth(k))


def _static(arrays: Arrays, frontier: Frontier, tree: Tree, depth: int) -> Grown:
    xp, rows = arrays.xp, frontier.root()
    branching = tuple(min(each, rows.shape[-1]) for each in tree.branching[:depth])
    plan = shape(branching, tree.nodes)
    ids = []
    for level in plan.levels:
        tokens = xp.reshape(arrays.top(rows, level.count)[1], (-1,))
        ids.append(xp.take(tokens, arrays.integers(level.picks), axis=0))
        if level.inner:
            chosen = xp.take(ids[-1], arrays.integers(level.inner), axis=0)
            rows = frontier.expand(chosen, arrays.integers(level.origins))
    return Grown(xp.concat(ids, axis=0), arrays.integers(plan.parents), len(plan.levels))


class Candidates(NamedTuple):
    """The children that one level's expanded nodes propose."""

    ids: Array
    """[c]"""
    chances: Array
    """[c] the product of probabilities from the root down."""
    parents: Array
    """[c] the candidate, counted over all levels, that each follows, -1 for the root."""


def _dynamic(arrays: Arrays, frontier: Frontier, tree: Tree, depth: int) -> Grown:
    """EAGLE-2: expand the `width` likeliest of each level, keep the `nodes` likeliest of all.

    A child is never likelier than its parent and always comes after it, so that no node is kept
    without its ancestors.
    """
    rows = frontier.root()
    chances, parents = rows[:, 0] * 0 + 1, arrays.integers([-1])
    made: list[Candidates] = []
    for level in range(depth):
        made.append(_children(arrays, rows, chances, parents, tree.width))
        if level + 1 < depth:
            width = made[-1].ids.shape[0] // rows.shape[0]
            before = sum(each.ids.shape[0] for each in made[:-1])
            chances, best = arrays.top(made[-1].chances, min(tree.width, made[-1].ids.shape[0]))
            chosen = arrays.xp.take(made[-1].ids, best, axis=0)
            rows, parents = frontier.expand(chosen, best // width), best + before
    return _likeliest(arrays, made, tree.nodes)


def _children(
    arrays: Arrays, rows: Array, chances: Array, parents: Array, width: int
) -> Candidates:
    """The likeliest children of nodes [w] that say `rows` [w, V], parent by parent."""
    xp = arrays.xp
    likely, ids = arrays.top(rows, min(width, rows.shape[-1]))
    # Rounded weights may sum to a little over one, and no child may be likelier than its parent.
    chances = xp.expand_dims(chances, axis=-1) * xp.where(likely < 1, likely, 1.0)
    parents = xp.broadcast_to(xp.expand_dims(parents, axis=-1), ids.shape)
    return Candidates(*(xp.reshape(each, (-1,)) for each in (ids, chances, parents)))


def _likeliest(arrays: Arrays, made: list[Candidates], nodes: int) -> Grown:
    xp = arrays.xp
    ids, chances, parents = (xp.concat(column, axis=0) for column in zip(*made, strict=True))
    kept = xp.sort(arrays.top(chances, min(nodes, ids.shape[0]))[1])
    above = xp.expand_dims(xp.take(parents, kept, axis=0), axis=-1)
    # How many are kept up to the parent, which is kept itself; none up to the root.
    places = xp.sum(xp.expand_dims(kept, axis=0) <= above, axis=-1) - 1
    return Grown(xp.take(ids, kept, axis=0), places, len(made))
