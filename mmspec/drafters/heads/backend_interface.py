"""The interface that heads need of a backend besides `Framework`: a cached layer, and tensors.

`mmspec.drafters.heads.modules`, `expanders` and `forwards` use it and serve every backend.

Shape letters: n rows, H width.
"""

from collections.abc import Callable
from typing import Protocol

from mmspec.decoding.ensemble_expander import DraftTail
from mmspec.decoding.framework import Framework
from mmspec.families.decoder import TextConfig
from mmspec.ground.arrays import A, Enter, Map, Positions


class HeadLayer(Protocol[A]):
    """A decoder layer with its own cache over one sequence."""

    def append(self, x: A, start: int, positions: Positions | None = None) -> A:
        """Feed rows [n, H] to columns `start` on; each attends to itself and all before it.

        An EAGLE-3 head's rows are [n, 2 H].  x may be overwritten.  positions: rotary positions
        [3, n]; None if they are the columns. Returns the output [1, H] of the last row.
        """

    def settle(self) -> None:
        """Start computing the fed rows, so that lazily evaluated work does not pile up."""

    def tail(self, columns: int, position: int) -> DraftTail[A]:
        """Start a draft after the first `columns` columns, at the rotary position `position`."""


class Parts(Protocol[A]):
    """A head's tensors by their paths in `mmspec.checkpoints.head_manifest`; each is read once."""

    @property
    def framework(self) -> Framework[A]:
        """The array functions of the framework that holds the tensors."""

    def tensor(self, name: str) -> A:
        """The tensor called `name`, as it is stored."""

    def linear(self, *paths: str, bias: bool = True) -> Map[A]:
        """Function that applies the linear layers at `paths` and concatenates their outputs."""

    def norm(self, path: str, eps: float) -> Map[A]:
        """The root-mean-square norm at `path`."""

    def layer(self, text: TextConfig, enter: Enter[A]) -> Callable[[], HeadLayer[A]]:
        """Function that opens the decoder layer with an empty cache.

        enter: what its attention reads of the input, and what is added to the attention's output.
        """
