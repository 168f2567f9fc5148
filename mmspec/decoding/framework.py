"""The array functions of a backend that sequences and heads share.

Shape letters: n rows, w nodes, gamma drafted tokens of a path, E rows to pick from, V vocabulary, H
width.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Any, Generic

import numpy as np
from numpy.typing import NDArray

from mmspec.decoding.draft import DeviceDraft, Draft, HostDraft
from mmspec.decoding.formulas import Top
from mmspec.decoding.noise import Noise, exponentials
from mmspec.decoding.sampling import Sampler, Sampling
from mmspec.decoding.tree import Tree
from mmspec.decoding.tree_drafting import Expander, draft_chain, draft_tree
from mmspec.ground.arrays import A, Map
from mmspec.ground.errors import DraftError


@dataclass(frozen=True, slots=True)
class Framework(Generic[A]):
    """A framework's functions on one device."""

    xp: Any
    """Array namespace as in `mmspec.decoding.formulas`."""
    concat: Callable[[list[A], int], A]
    """Function that concatenates arrays along an axis."""
    split: Callable[[A, int], Sequence[A]]
    """Function that splits an array into equal parts along its last axis."""
    pick: Callable[[A, A], A]
    """Function that picks rows [w, H] from rows [E, H] by indices [w]."""
    silu: Map[A]
    """Function that computes x * sigmoid(x)."""
    softmax: Map[A]
    """Function that computes softmax over the last axis, in the input's type."""
    keys: Callable[[Noise, int], A]
    """Function that copies the noise keys [n, 2] of a round's first n positions to the device."""
    ids: Callable[[int], A]
    """Function from n to the ids 0 to n - 1, in the integer type of the keys."""
    count: Callable[[int], A]
    """Function from n to the integers below n, on the device."""
    integers: Callable[[Sequence[int]], A]
    """Function that copies signed integers [n] to the device."""
    floats: Callable[[Sequence[Any]], A]
    """Function that copies numbers, or rows of them, to the device as float32."""
    zeros: Callable[..., A]
    """Function of a shape and `dtype`, one of the framework's, that returns zeros."""
    top: Top
    """Function of p [..., V] and a count: the largest entries and their indices."""
    draft_type: type[DeviceDraft[A]]
    """The backend's drafts, which only its own targets can verify."""
    start: Callable[[A], None]
    """Function that starts computing an array and does not wait."""
    settle: Callable[..., None]
    """Function that waits until arrays are computed, in a framework that computes lazily."""
    compile: Callable[[Any], Any]
    """Function that compiles a function of arrays of fixed shapes, or returns it."""
    to_host: Callable[[A], NDArray[np.float32]]
    """Function that copies an array to the host as float32.  Blocks."""
    inference: Callable[[], AbstractContextManager[object]]
    """Function that returns the context manager in which every forward runs."""

    def sampler(self, sampling: Sampling) -> Sampler:
        """A sampler of arrays on the device."""
        noise = self.compile(partial(exponentials, self.xp))
        return Sampler(self.xp, self.top, noise, sampling, self.ids)

    def read(self, *parts: A) -> Iterator[list[float]]:
        """Copy vectors to the host in one transfer.  Blocks."""
        vector: Any = self.concat([*parts], 0)
        numbers = iter(vector.tolist())
        return (list(islice(numbers, len(part))) for part in parts)

    def own_draft(self, draft: Draft | None, vocabulary: int) -> DeviceDraft[A] | None:
        """The draft on the device; raises DraftError for one that is not this target's."""
        if isinstance(draft, HostDraft):
            if not 0 <= min(draft.tokens) <= max(draft.tokens) < vocabulary:
                wrong = next(token for token in draft.tokens if not 0 <= token < vocabulary)
                raise DraftError(
                    f"a HostDraft has the token {wrong}, and the target's are 0 to "
                    f"{vocabulary - 1}: draft ids of the target's tokens, like those that `extend` "
                    "and `commit` give"
                )
            ids = self.integers(draft.tokens)
            parents = None if draft.parents is None else self.integers(draft.parents)
            return self.draft_type(ids, draft.depth, parents)
        if draft is not None and not isinstance(draft, self.draft_type):
            raise DraftError(
                f"a {type(draft).__name__} is no draft of this backend's: return "
                f"{self.draft_type.__name__}, HostDraft or None"
            )
        return draft

    def draft(
        self, sampler: Sampler, expander: Expander, tree: Tree | None, keys: A
    ) -> DeviceDraft[A]:
        """Draft a chain of gamma tokens, or a tree as deep; keys: [gamma, 2], the noise keys."""
        if tree:
            return draft_tree(self, sampler, expander, tree, keys)
        ids = draft_chain(sampler, expander, keys)
        self.start(ids)
        return self.draft_type(ids, len(keys))
