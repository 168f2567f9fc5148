"""The target's verdict on a draft, and the rule for accepting drafted tokens.

A drafted token is accepted if and only if it is the token that the target itself chooses there.

Shape letters: n drafted nodes, m rows, V vocabulary.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mmspec.decoding.draft import DeviceDraft
from mmspec.decoding.framework import Framework
from mmspec.ground.arrays import A


class Logits(NamedTuple):
    """Logits on the device, until the next forward."""

    array: Any
    """[m, V] an array of the backend."""
    to_host: Callable[[Any], NDArray[np.float32]]
    """Function that copies an array to the host.  Blocks."""


class FirstChoices(NamedTuple):
    """The target's verdict on the tokens that the draft ranked first: those of a chain."""

    accepted: int
    """Tokens at the beginning of an accepted path that were ranked first."""
    judged: int
    """`accepted`, and 1 if the next one was drafted and rejected."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The target's own tokens at n drafted nodes, read back to the host.

    The nodes form a tree rooted at the end of the sequence, parents before children and siblings by
    rank; a chain is the tree in which every node has one child.
    """

    drafted: list[int]
    """[n] the drafted tokens; siblings differ."""
    parents: list[int]
    """[n] index of each token's parent node, -1 for the root."""
    best: list[int]
    """[n + 1] the target's own token after the root (index 0) and after node i (index i + 1)."""
    logits: Logits | None = field(default=None, compare=False)
    """[n + 1, V] the target's logits in the same order; None if the target does not give them."""

    def child(self, path: Sequence[int], token: int) -> int | None:
        """The node of `token` after the last node of `path`; None if it was not drafted there."""
        parent = path[-1] if path else -1
        pairs = zip(self.parents, self.drafted, strict=True)
        return next((node for node, pair in enumerate(pairs) if pair == (parent, token)), None)

    def first_choices(self, path: Sequence[int]) -> FirstChoices:
        """Of the tokens that a chain would have drafted, those on an accepted path."""
        parent, accepted = -1, 0
        for node in path:
            if self.parents.index(parent) != node:  # siblings are in the order of their ranks
                return FirstChoices(accepted, accepted + 1)
            parent, accepted = node, accepted + 1
        return FirstChoices(accepted, accepted + (parent in self.parents))

    def along(self, path: Sequence[int]) -> list[int]:
        """The tokens on `path`; raises ValueError unless it leads down from the root."""
        parent = -1
        for node in path:
            if not 0 <= node < len(self.parents) or self.parents[node] != parent:
                raise ValueError(f"{list(path)} is no path in {self.parents}")
            parent = node
        return [self.drafted[node] for node in path]


def read_verdict(
    framework: Framework[A], draft: DeviceDraft[A] | None, logits: A, best: A
) -> Verdict:
    """Read the verdict on a draft to the host, in one copy.  Blocks.

    logits: [n + 1, V], the target's after the last token and after each node.  best: [n + 1], the
    tokens that it chooses there.
    """
    arrays = [best] if draft is None else [best, draft.ids]
    if draft is not None and draft.parents is not None:
        arrays.append(draft.parents)
    choices, *lists = ([*map(int, numbers)] for numbers in framework.read(*arrays))
    ids = lists[0] if lists else []
    parents = lists[1] if len(lists) > 1 else [*range(-1, len(ids) - 1)]
    return Verdict(ids, parents, choices, Logits(logits, framework.to_host))


def accept(verdict: Verdict, stop: Collection[int] = ()) -> tuple[list[int], list[int]]:
    """The path of accepted nodes to commit, and the tokens of the round: theirs, then the target's.

    From the root on, a node is accepted if its token is the target's own after its parent. A stop
    token ends the round; its node, if it was drafted, is not on the path, for it is never fed.
    """
    path: list[int] = []
    tokens: list[int] = []
    node: int | None = -1
    while node is not None:
        tokens.append(verdict.best[node + 1])
        node = None if tokens[-1] in stop else verdict.child(path, tokens[-1])
        if node is not None:
            path.append(node)
    return path, tokens
