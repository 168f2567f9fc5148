"""What heads ask of a backend: all that their methods do not know of tensors.

`mmspec.heads.modules`, `frontiers` and `forwards` are written once over it.

Shape letters: n rows, w nodes, k drafted tokens, E rows to pick from, I inputs, O outputs,
H width, V vocabulary.
"""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Generic, Protocol

from mmspec.arrays import A, Map
from mmspec.config import TextConfig
from mmspec.draft import Draft
from mmspec.frontier import Tail
from mmspec.growth import Frontier
from mmspec.tree import Tree


@dataclass(frozen=True, slots=True)
class Framework(Generic[A]):
    """A framework's calls, on one device."""

    xp: Any
    """A namespace as in `mmspec.maths`."""
    concat: Callable[[list[A], int], A]
    """Arrays one behind the other, along an axis."""
    pick: Callable[[A, A], A]
    """The rows [w, H] of rows [E, H] at places [w]."""
    silu: Map[A]
    """x * sigmoid(x)"""
    softmax: Map[A]
    """Over the last axis, in the type that it is given."""
    probabilities: Map[A]
    """From logits [w, V] to rows in float32."""
    floats: Callable[[Sequence[float]], A]
    """Brings numbers [n] to the device."""
    chained: Callable[[A, A | None], Draft]
    """A draft of ids [k] drawn from q [k, V], None where each is a point mass; it is started."""
    grown: Callable[[Frontier, Tree, int], Draft]
    """A draft that `mmspec.growth.grow` makes."""
    inference: Callable[[], AbstractContextManager[object]]
    """What forwards run in."""


@dataclass(frozen=True, slots=True)
class Base(Generic[A]):
    """The target that a head sits on; it is never behind."""

    states: Callable[[int, int], A]
    """Hidden states [n, H] after the last norm of columns from one to another, all fed."""
    inputs: Callable[[int, int], A]
    """Embeddings [n, H] of columns from one to another, images in their places."""
    embed: Map[A]
    """From drafted ids [w], on which the device is started, to embeddings [w, H]."""
    project: Map[A]
    """From hidden states [w, H] to logits [w, V]."""


class Layer(Protocol[A]):
    """A decoder layer with a cache of its own, over one sequence."""

    def append(self, x: A, start: int) -> A:
        """Feed rows [n, H] to the columns from `start` on, each seeing all before it.

        x may be overwritten.  Returns the last one's output [1, H].
        """
        ...

    def settle(self) -> None:
        """See to it that what was fed is computed, and does not pile up unread."""
        ...

    def tail(self, columns: int) -> Tail[A]:
        """Start a draft behind the first `columns`."""
        ...


class Parts(Protocol[A]):
    """A head's tensors, each taken once, by the paths that `mmspec.heads.manifest` lists."""

    @property
    def framework(self) -> Framework[A]:
        """What they are computed with."""
        ...

    def tensor(self, name: str) -> A:
        """Take one as it is."""
        ...

    def linear(self, *paths: str, bias: bool = True) -> Map[A]:
        """Take linear layers that have one input as one, their outputs side by side."""
        ...

    def norm(self, path: str, eps: float) -> Map[A]:
        """Take a root-mean-square norm."""
        ...

    def layer(
        self, text: TextConfig, *, qkv_bias: bool, input_norm: bool
    ) -> Callable[[], Layer[A]]:
        """Take the decoder layer; every call of what is returned opens an empty cache."""
        ...
