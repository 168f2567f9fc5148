"""The target's verdict on a draft, and the rule for accepting drafted tokens.

A drafted token is accepted if and only if it is the token that the target itself chooses there.

Shape letters: R branches (views in the draft's batch), n drafted nodes, V vocabulary.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mmspec.decoding.adaptive_weights import Evidence
from mmspec.decoding.draft import DeviceDraft
from mmspec.decoding.framework import Framework
from mmspec.ground.arrays import A


class FirstChoices(NamedTuple):
    """What the target says of the tokens that the draft ranked first: those of a chain."""

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
    weights: list[float] = field(default_factory=list)
    """[R] weights that an adapting drafter fitted to its branches; empty if weights are fixed."""
    evidence: Evidence | None = None
    """Probabilities of branches and target on the device, for an adapting drafter."""
    logits: Callable[[], NDArray[np.float32]] | None = field(default=None, compare=False)
    """Function that copies the logits [n + 1, V] to the host, until the next forward.  Blocks."""

    def first_choices(self, path: Sequence[int]) -> FirstChoices:
        """Of the tokens that a chain would have drafted, those on an accepted path."""
        at, accepted = -1, 0
        for node in path:
            if self.parents.index(at) != node:  # siblings are in the order of their ranks
                return FirstChoices(accepted, accepted + 1)
            at, accepted = node, accepted + 1
        return FirstChoices(accepted, accepted + (at in self.parents))

    def along(self, path: Sequence[int]) -> list[int]:
        """The tokens on `path`; raises ValueError unless it leads down from the root."""
        at = -1
        for node in path:
            if not 0 <= node < len(self.parents) or self.parents[node] != at:
                raise ValueError(f"{list(path)} is no path in {self.parents}")
            at = node
        return [self.drafted[node] for node in path]


def read_verdict(
    framework: Framework[A], draft: DeviceDraft[A] | None, logits: A, best: A
) -> Verdict:
    """Read the verdict on a draft to the host, in one copy.  Blocks.

    logits: [n + 1, V], the target's after the last token and after each node.  best: [n + 1], the
    tokens that it chooses there.
    """
    if draft is None:
        (tokens,) = framework.read(best)
        return Verdict([], [], [*map(int, tokens)])
    branches = draft.branches
    more = [draft.parents, *((branches.weights, branches.places) if branches else (None, None))]
    copies = framework.read(draft.ids, best, *(part for part in more if part is not None))
    ids, own = ([*map(int, next(copies))] for _ in range(2))
    parents, weights, places = (None if part is None else next(copies) for part in more)
    above = range(-1, draft.size - 1) if parents is None else map(int, parents)
    verdict = Verdict(ids, [*above], own)
    if branches is None or weights is None:
        return verdict
    own_logits = framework.xp.astype(logits, framework.xp.float32)
    nodes = None if places is None else [*map(int, places)]
    return replace(verdict, weights=weights, evidence=Evidence(branches.q, own_logits, nodes))


def accept(verdict: Verdict, stop: Collection[int] = ()) -> tuple[list[int], list[int]]:
    """The accepted nodes, and the tokens of the round: the accepted ones, then the target's next.

    From the root on, a node is accepted if its token is the target's own after its parent. A stop
    token ends the round, whether it was drafted or not.
    """
    pairs = zip(verdict.parents, verdict.drafted, strict=True)
    children = {pair: node for node, pair in enumerate(pairs)}
    path: list[int] = []
    tokens: list[int] = []
    at: int | None = -1
    while at is not None:
        tokens.append(verdict.best[at + 1])
        at = children.get((at, tokens[-1]))
        if at is not None:
            path.append(at)
        if tokens[-1] in stop:
            break
    return path, tokens
