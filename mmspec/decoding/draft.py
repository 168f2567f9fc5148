"""Drafts: proposed tokens, on a device or on the host.

Shape letters: n nodes, R branches, E positions at which the branches have probabilities, V
vocabulary.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Generic, NamedTuple, Protocol

import numpy as np

from mmspec.decoding import formulas
from mmspec.ground.arrays import A
from mmspec.ground.errors import DraftError


class Draft(Protocol):
    """Proposed tokens that the host has not read; only the backend that made them looks inside."""

    @property
    def size(self) -> int:
        """The number of drafted nodes."""

    @property
    def depth(self) -> int:
        """The most nodes on one path from the root."""


class Plan(NamedTuple):
    """The size of a round's draft."""

    gamma: int
    """Tokens of a chain, or the most tokens of a path of a tree; 0 drafts nothing."""
    nodes: int | None = None
    """The most nodes; gamma or fewer are a chain.  None drafts what the drafter was opened for."""
    pays: Callable[[Sequence[float]], int] | None = None
    """Function that returns how many nodes, from the first, are worth verifying, by their chances
    of being accepted; None verifies all. Drafters without chances do not call it."""
    lookup: "Plan | None" = None
    """Plan of the draft by lookup that is tried first, where lookup drafts beside another."""

    def within(self, most: int) -> "Plan":
        """This plan with paths of at most `most` tokens; a chain stays one."""
        if self.gamma <= most:
            return self
        is_chain = self.nodes is not None and self.nodes <= self.gamma
        return self._replace(gamma=most, nodes=most if is_chain else self.nodes)


class Ancestry(NamedTuple):
    """For each node of a tree and its root: which nodes are its ancestors, and how many."""

    visible: Any
    """[n + 1, n + 1] row by node: True for the node itself and its ancestors."""
    depths: Any
    """[n + 1] the number of ancestors of each node."""

    def of(self, xp: Any, rows: Any, count: int) -> "Ancestry":
        """The ancestors of nodes `rows` [m], all of which are among the first `count` nodes."""
        visible = xp.take(self.visible, rows, axis=0)[:, :count]
        return Ancestry(visible, xp.take(self.depths, rows, axis=0))


@dataclass(frozen=True, slots=True)
class DeviceDraft(Generic[A]):
    """A drafted chain or tree on a device; each backend has an empty subclass of its own."""

    ids: A
    """[n] the drafted tokens, parents before children."""
    depth: int
    """The most nodes on one path from the root."""
    parents: A | None = None
    """[n] index of each node's parent, -1 for the root; None for a chain."""
    outputs: Callable[[], A] | None = None
    """Function that computes where the draft's outputs after the root and after each node are
    [n + 1] among all that it computed, -1 where it computed none; None for a chain."""
    branch_probabilities: A | None = None
    """[E, R, V] of each branch, where the draft computed outputs; None if nobody asked for them."""

    @property
    def size(self) -> int:
        """The number of drafted tokens, n."""
        return self.ids.shape[0]

    def first(self, count: int) -> "DeviceDraft[A]":
        """The first tokens of a chain."""
        return replace(self, ids=self.ids[:count], depth=count)

    def ancestry(self, xp: Any) -> Ancestry | None:
        """The ancestors of each node, in the array namespace `xp`; None for a chain."""
        if self.parents is None:
            return None
        visible = formulas.ancestry(xp, self.parents, self.depth)
        return Ancestry(visible, xp.sum(visible, axis=-1) - 1)


INTEGERS = (int, np.integer)


@dataclass(frozen=True, slots=True)
class HostDraft:
    """A chain or tree proposed on the host, for any backend's target; raises DraftError."""

    tokens: list[int]
    """[n] token ids of the target, n >= 1, parents before children."""
    parents: list[int] | None = None
    """[n] index of each node's parent, -1 for the root; None for a chain."""
    by_lookup: bool = field(default=False, compare=False, kw_only=True)
    depth: int = field(init=False, compare=False)
    """The most nodes on one path from the root."""

    def __post_init__(self) -> None:
        if not len(self.tokens):
            raise DraftError("a HostDraft has no tokens: return None if there is nothing to draft")
        for token in self.tokens:
            if not isinstance(token, INTEGERS):
                raise DraftError(f"a HostDraft has the token {token!r}: give a list of integers")
        depth = self.size if self.parents is None else deepest(self.parents, self.size)
        object.__setattr__(self, "depth", depth)

    @property
    def size(self) -> int:
        """The number of drafted tokens, n."""
        return len(self.tokens)


def deepest(parents: Sequence[Any], count: int) -> int:
    """The most nodes on one path of a tree; raises DraftError unless its `count` nodes make one."""
    depths: list[int] = []
    for node, parent in enumerate(parents):
        if not isinstance(parent, INTEGERS) or not -1 <= parent < node:
            raise DraftError(
                f"in a HostDraft the parent of node {node} is {parent!r}: give the index of an "
                "earlier node, or -1 for the root"
            )
        depths.append(1 + (depths[parent] if parent >= 0 else 0))
    if len(depths) != count:
        raise DraftError(f"a HostDraft has {count} tokens and {len(depths)} parents: give as many")
    return max(depths)


def require_path(draft: Draft | None, path: Sequence[int], tokens: Sequence[int]) -> None:
    """Raise ValueError unless `path` can be a path of the draft and `tokens` begin with it."""
    depth = draft.depth if draft else 0
    is_tree = isinstance(draft, DeviceDraft) and draft.parents is not None
    fits = len(path) <= min(depth, len(tokens))
    if not fits or not (is_tree or list(path) == list(range(len(path)))):
        raise ValueError(f"path {list(path)} is none of a draft {depth} deep")
