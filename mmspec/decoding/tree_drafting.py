"""Drafts chains and trees level by level, for every backend and every kind of drafter.

An `Expander` returns the logits after each of several nodes at once. All arrays stay on the
backend's device: this module only enqueues operations, and the host knows only sizes.

Shape letters: gamma tokens of a path, V vocabulary, w expanded nodes, c candidates of a level, C of
all levels, n nodes of the tree.
"""

from functools import partial
from typing import Any, NamedTuple, Protocol

from mmspec.decoding.draft import DeviceDraft
from mmspec.decoding.formulas import Array
from mmspec.decoding.sampling import Sampler
from mmspec.decoding.tree import Tree, shape


class Expander(Protocol):
    """Returns logits after the sequence, then after the nodes of one level after another.

    If the logits do not depend on the node, one row may be returned, broadcast to w rows.
    """

    def root(self) -> Array:
        """Logits [1, V] of the token after the sequence.  Called first, once."""

    def expand(self, tokens: Array, parents: Array | None) -> Array:
        """Logits [w, V] of the token after each of w nodes of the next level.

        tokens: [w]. parents: [w] index of each node's parent among the nodes of the previous call;
        all 0 in the first call, where the parent is the root; None in a chain, where each node
        follows the one before it.
        """


def draft_chain(sampler: Sampler, expander: Expander, keys: Array) -> Array:
    """Draft a chain [gamma]; keys: [gamma, 2], noise keys from its first position on."""
    ids: list[Array] = []
    for node in range(len(keys)):
        logits = expander.expand(ids[-1], None) if ids else expander.root()
        ids.append(sampler.tokens(logits, keys[node : node + 1]))
    return sampler.xp.concat(ids, axis=0)


def draft_tree(
    framework: Any, sampler: Sampler, expander: Expander, tree: Tree, keys: Array
) -> DeviceDraft[Any]:
    """Draft a tree whose paths have at most gamma tokens; keys: [gamma, 2] as for a chain.

    The children of a node are the tokens that the draft ranks first under the target's noise: draws
    without replacement.  Siblings are in the order of their ranks.  framework: a `Framework`, whose
    module imports this one.
    """
    build = _static if tree.branching else _dynamic
    return build(framework, sampler, expander, tree, keys[: tree.depth(len(keys))])


def _static(
    framework: Any, sampler: Sampler, expander: Expander, tree: Tree, keys: Array
) -> DeviceDraft[Any]:
    xp, rows, integers = framework.xp, expander.root(), framework.integers
    most = sampler.sampling.top_k or rows.shape[-1]
    levels = tree.branching[: len(keys)]
    branching = tuple(min(children, most, rows.shape[-1]) for children in levels)
    plan = shape(branching, tree.nodes)
    ids = []
    for number, level in enumerate(plan.levels):
        children = sampler.children(rows, keys[number : number + 1], level.count)[1]
        ids.append(xp.take(xp.reshape(children, (-1,)), integers(level.picks), axis=0))
        if level.inner:
            tokens = xp.take(ids[-1], integers(level.inner), axis=0)
            rows = expander.expand(tokens, integers(level.origins))
    parents, outputs = integers(plan.parents), partial(integers, plan.outputs)
    draft_type: type[DeviceDraft[Any]] = framework.draft_type
    return draft_type(xp.concat(ids, axis=0), len(plan.levels), parents, outputs)


class Candidates(NamedTuple):
    """Children proposed by the expanded nodes of one level."""

    ids: Array
    """[c] the tokens."""
    chances: Array
    """[c] the product of confidences along the path from the root."""
    parents: Array
    """[c] index of the parent among the candidates of all levels, -1 for the root."""


def _dynamic(
    framework: Any, sampler: Sampler, expander: Expander, tree: Tree, keys: Array
) -> DeviceDraft[Any]:
    """As EAGLE-2: expand each level's `width` most confident nodes, keep the best `nodes` of all.

    A child's chance never exceeds its parent's, and in a tie the parent comes first, so that a
    node is never kept without its ancestors.
    """
    xp, depth = framework.xp, len(keys)
    rows, parents = expander.root(), framework.integers([-1])
    chances = xp.ones_like(xp.astype(rows[:, 0], xp.float32))
    levels: list[Candidates] = []
    inner = [parents]
    for level in range(depth):
        children = sampler.children(rows, keys[level : level + 1], tree.width)
        levels.append(_candidates(xp, *children, chances, parents))
        if level + 1 < depth:
            count, width = levels[-1].ids.shape[0], children[1].shape[1]
            before = sum(above.ids.shape[0] for above in levels[:-1])
            chances, best = framework.top(levels[-1].chances, min(tree.width, count))
            tokens = xp.take(levels[-1].ids, best, axis=0)
            rows, parents = expander.expand(tokens, best // width), best + before
            inner.append(parents)
    return _surest(framework, levels, tree.nodes, inner)


def _candidates(
    xp: Any, confidence: Array, ids: Array, chances: Array, parents: Array
) -> Candidates:
    """The children [w * count] of nodes [w] as candidates, parent by parent."""
    chances = xp.expand_dims(chances, axis=-1) * confidence
    parents = xp.broadcast_to(xp.expand_dims(parents, axis=-1), ids.shape)
    return Candidates(*(xp.reshape(column, (-1,)) for column in (ids, chances, parents)))


def _surest(
    framework: Any, levels: list[Candidates], nodes: int, inner: list[Array]
) -> DeviceDraft[Any]:
    """The best `nodes` candidates; `inner` are the root and those that were expanded."""
    xp, columns = framework.xp, zip(*levels, strict=True)
    ids, chances, parents = (xp.concat(column, axis=0) for column in columns)
    best = xp.sort(framework.top(chances, min(nodes, ids.shape[0]))[1])
    above = xp.expand_dims(xp.take(parents, best, axis=0), axis=-1)
    # The number of best nodes up to the parent, which is one of them; 0 for the root.
    places = xp.sum(xp.expand_dims(best, axis=0) <= above, axis=-1) - 1
    outputs = partial(_places, xp, [inner[0], best], inner)
    draft_type: type[DeviceDraft[Any]] = framework.draft_type
    return draft_type(xp.take(ids, best, axis=0), len(levels), places, outputs)


def _places(xp: Any, nodes: list[Array], inner: list[Array]) -> Array:
    """Where each of `nodes` is among `inner`, which differ; -1 if it is not."""
    columns = xp.concat(inner, axis=0)
    is_same = xp.expand_dims(xp.concat(nodes, axis=0), axis=-1) == columns
    numbers = xp.cumulative_sum(xp.ones_like(columns), axis=0)
    return xp.sum(xp.where(is_same, numbers, xp.zeros_like(numbers)), axis=-1) - 1
