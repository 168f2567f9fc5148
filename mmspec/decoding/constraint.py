"""Decoding within a grammar: the target chooses among the tokens that a constraint allows.

The choice is made on the host, from the target's logits and the noise of its position, so it is the
same for every draft: a draft that the constraint forbids is rejected like any other.

Shape letters: V vocabulary.
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from mmspec.decoding.acceptance import Verdict
from mmspec.decoding.contract import Float32, Verifier
from mmspec.decoding.draft import Draft
from mmspec.decoding.host_framework import HOST
from mmspec.decoding.noise import Noise
from mmspec.decoding.sampling import Sampling


class Constraint(Protocol):
    """What an answer may say, read from its beginning on."""

    def mask(self) -> NDArray[np.bool_]:
        """[V] True for each token that may come next, one at least."""

    def advance(self, token: int) -> None:
        """Take note of the next token, an allowed one that is no stop token."""


OpenConstraint = Callable[[], Constraint]
"""Function that returns a constraint at the beginning of an answer."""


class ConstrainedTarget:
    """Implements `Verifier`: a target whose tokens a constraint allows."""

    def __init__(
        self,
        target: Verifier,
        constraint: Constraint,
        sampling: Sampling,
        stop: Collection[int],
        beginning: Iterable[int] = (),
    ) -> None:
        """sampling: the target's, applied to the allowed tokens.  stop: tokens that end it.

        beginning: tokens of the answer that the target holds already, allowed ones.
        """
        for token in beginning:
            constraint.advance(token)
        self._target, self._constraint, self._stop = target, constraint, stop
        self._sampler = HOST.sampler(sampling)

    @property
    def length(self) -> int:
        """Number of tokens in the target's sequence."""
        return self._target.length

    def verify(self, draft: Draft | None, noise: Noise) -> Verdict:
        """The target's verdict, with allowed tokens on the path that is accepted.  Blocks."""
        verdict = self._target.verify(draft, noise)
        if verdict.logits is None:
            raise ValueError("a constraint needs a target that gives its logits")
        rows = verdict.logits.to_host(verdict.logits.array)
        keys = HOST.keys(noise, len(rows))
        best, path = list(verdict.best), list[int]()
        node: int | None = -1
        while node is not None:
            token = best[node + 1] = self._choice(rows[node + 1], keys[len(path)])
            if token in self._stop:
                break
            self._constraint.advance(token)
            node = verdict.child(path, token)
            path += [] if node is None else [node]
        return replace(verdict, best=best)

    def commit(self, path: Sequence[int], token: int) -> None:
        """Commit to the target."""
        self._target.commit(path, token)

    def _choice(self, logits: Float32, key: NDArray[np.uint32]) -> int:
        row = np.where(self._constraint.mask(), logits, -np.inf)
        return int(self._sampler.tokens(row[None], key[None])[0])
