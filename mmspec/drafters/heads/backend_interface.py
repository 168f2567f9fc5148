"""The interface that heads need of a backend: array functions, layers and tensors.

`mmspec.drafters.heads.modules`, `expanders` and `forwards` use it and serve every backend.

Shape letters: n rows, w nodes, k drafted tokens, E rows to pick from, I inputs, O outputs, H width,
V vocabulary.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Generic, Protocol

from mmspec.checkpoints.config import TextConfig
from mmspec.decoding.arrays import A, Map
from mmspec.decoding.draft import Draft
from mmspec.decoding.ensemble_expander import DraftTail
from mmspec.decoding.noise import Noise
from mmspec.decoding.sampling import Sampler, Sampling
from mmspec.decoding.tree import Tree
from mmspec.decoding.tree_drafting import Expander


@dataclass(frozen=True, slots=True)
class Framework(Generic[A]):
    """A framework's functions on one device."""

    xp: Any
    """Array namespace as in `mmspec.decoding.formulas`."""
    concat: Callable[[list[A], int], A]
    """Function that concatenates arrays along an axis."""
    pick: Callable[[A, A], A]
    """Function that picks rows [w, H] from rows [E, H] by indices [w]."""
    silu: Map[A]
    """x * sigmoid(x)."""
    softmax: Map[A]
    """Softmax over the last axis, in the input's type."""
    sampler: Callable[[Sampling], Sampler]
    """Function that creates a sampler."""
    keys: Callable[[Noise, int], A]
    """Function that copies the noise keys [k, 2] of a round's first k positions to the device."""
    chain_draft: Callable[[A], Draft]
    """Function that makes a draft of a chain's ids [k] and starts computing them."""
    tree_draft: Callable[[Sampler, Expander, Tree, int, A], Draft]
    """Function that drafts a tree with `mmspec.decoding.tree_drafting.draft_tree`."""
    inference: Callable[[], AbstractContextManager[object]]
    """Context manager that every forward runs in."""


class Layer(Protocol[A]):
    """A decoder layer with its own cache over one sequence."""

    def append(self, x: A, start: int) -> A:
        """Feed rows [n, H] to columns `start` on; each attends to itself and all before it.

        x may be overwritten. Returns the output [1, H] of the last row.
        """
        ...

    def settle(self) -> None:
        """Start computing the fed rows, so that lazily evaluated work does not pile up."""
        ...

    def tail(self, columns: int) -> DraftTail[A]:
        """Start a draft after the first `columns` columns."""
        ...


class Parts(Protocol[A]):
    """A head's tensors by their paths in `mmspec.checkpoints.head_manifest`; each is read once."""

    @property
    def framework(self) -> Framework[A]:
        """The array functions of the framework that holds the tensors."""
        ...

    def tensor(self, name: str) -> A:
        """The tensor called `name`, as it is stored."""
        ...

    def linear(self, *paths: str, bias: bool = True) -> Map[A]:
        """Applies several linear layers to one input and concatenates their outputs."""
        ...

    def norm(self, path: str, eps: float) -> Map[A]:
        """The root-mean-square norm at `path`."""
        ...

    def layer(
        self, text: TextConfig, *, qkv_bias: bool, input_norm: bool
    ) -> Callable[[], Layer[A]]:
        """Function that opens the decoder layer with an empty cache."""
        ...
