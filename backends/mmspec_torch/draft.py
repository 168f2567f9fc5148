"""What drafters on this backend propose.

Shape letters: n drafted tokens, R branches, V vocabulary.
"""

from dataclasses import dataclass
from typing import NamedTuple

from torch import Tensor

from mmspec.adaptive import Evidence


class Choice(NamedTuple):
    """A drafted token and what it was chosen from."""

    token: Tensor
    """[1]"""
    q: Tensor | None = None
    """[V] what it was drawn from; None where it is the argmax."""
    rows: Tensor | None = None
    """[R, V] what each branch said; None where one was asked for its argmax."""


@dataclass(frozen=True, slots=True)
class TorchDraft:
    """A drafted chain or tree on the device."""

    ids: Tensor
    """[n] parents before children."""
    q: Tensor | None = None
    """[n, V of the target] what a chain's ids were drawn from; None where each is a point mass."""
    evidence: Evidence | None = None
    """Where the drafter adapts."""
    parents: Tensor | None = None
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
