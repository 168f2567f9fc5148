"""What a drafter proposes, and what a target says of it.

Shape letters: R branches, k tokens of a chain, n nodes, V vocabulary.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Generic, Protocol

from mmspec.adaptive import Evidence
from mmspec.arrays import A


class Draft(Protocol):
    """Tokens a drafter has proposed and nobody has read yet; only its own backend looks inside."""

    @property
    def size(self) -> int:
        """The number of drafted nodes."""
        ...

    @property
    def depth(self) -> int:
        """The most nodes of a path: all of a chain, the levels of a tree."""
        ...


@dataclass(frozen=True, slots=True)
class DeviceDraft(Generic[A]):
    """A drafted chain or tree on a device; each backend's own is a subclass that adds nothing."""

    ids: A
    """[n] parents before children."""
    q: A | None = None
    """[n, V of the target] what a chain's ids were drawn from; None where each is a point mass."""
    evidence: Evidence | None = None
    """Where the drafter adapts."""
    parents: A | None = None
    """[n] the node that each of a tree follows, -1 for the root; None for a chain."""
    levels: int = 0
    """Of a tree; a bound on the length of its paths."""

    @property
    def size(self) -> int:
        """The number of drafted tokens, n."""
        return self.ids.shape[0]

    @property
    def depth(self) -> int:
        """The most nodes of a path."""
        return self.size if self.parents is None else self.levels


@dataclass(frozen=True, slots=True)
class HostDraft:
    """A chain that the host proposes, by lookup and not from a model; every target takes it."""

    tokens: list[int]
    """[k] ids of the target, k >= 1.  None was drawn: each is a point mass, q = 1."""

    @property
    def size(self) -> int:
        """The number of drafted tokens, k."""
        return len(self.tokens)

    @property
    def depth(self) -> int:
        """The same: a chain is one path."""
        return len(self.tokens)


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the target said about n drafted tokens, read back to the host.

    The tokens form a tree rooted in the sequence, parents before children; a chain is the tree
    in which every node has one child.
    """

    drafted: list[int]
    """[n] the tokens."""
    parents: list[int]
    """[n] the node each token follows, -1 for the root."""
    accept: list[float]
    """[n] probability of keeping each token once its earlier siblings have been rejected."""
    fallback: list[int]
    """[n + 1] the target's own token if no child of the root (0) or of node i (i + 1) is kept."""
    weights: list[float] = field(default_factory=list)
    """[R] what an adapting drafter mixed its branches with; empty where weights are as given."""
    seen: list[float] = field(default_factory=list)
    """[n + 1] the share of the last layer's attention that the root (0) and node i (i + 1) give to
    image positions; empty where the target does not watch, or the sequence has no image."""

    def along(self, path: Sequence[int]) -> list[int]:
        """The tokens on a path from the root; raises ValueError where `path` is none."""
        at = -1
        for node in path:
            if not 0 <= node < len(self.parents) or self.parents[node] != at:
                raise ValueError(f"{list(path)} is no path in {self.parents}")
            at = node
        return [self.drafted[node] for node in path]


def judged(
    drafted: Sequence[float],
    parents: Sequence[float],
    accept: Sequence[float],
    fallback: Sequence[float],
    seen: Sequence[float] = (),
) -> Verdict:
    """A tree's verdict from what was read; ids come as floats, which hold them exactly."""
    tokens, above, best = ([*map(int, each)] for each in (drafted, parents, fallback))
    return Verdict(tokens, above, list(accept), best, seen=list(seen))


def agreed(
    drafted: Sequence[float],
    parents: Sequence[float],
    best: Sequence[float],
    seen: Sequence[float] = (),
) -> Verdict:
    """A tree's greedy verdict: a node is kept if and only if it is the argmax after its parent.

    best: [n + 1] the target's argmax after the root and after each node.
    """
    pairs = zip(drafted, parents, strict=True)
    accept = [float(token == best[int(parent) + 1]) for token, parent in pairs]
    return judged(drafted, parents, accept, best, seen)
