"""What every backend's target keeps on the host: lengths, the last verdict and what a head reads.

Shape letters: n rows fed or drafted, V vocabulary, H width.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Generic, NamedTuple, Protocol

from mmspec.decoding.acceptance import Verdict, read_verdict
from mmspec.decoding.arrays import A
from mmspec.decoding.contents import Projection, Row, chunks
from mmspec.decoding.draft import Ancestry, DeviceDraft, Draft, HostDraft
from mmspec.decoding.framework import Framework
from mmspec.decoding.noise import Noise
from mmspec.decoding.sampling import Sampling
from mmspec.seam import Float32, Segment


class Columns(Protocol):
    """A cache on the device, indexed by column; its owner knows how many columns are valid."""

    def gather(self, start: int, columns: Sequence[int]) -> None:
        """Move the columns `columns` to `start` onwards; they ascend, none is before `start`."""

    def settle(self) -> None:
        """Wait until all writes are computed, in a framework that computes lazily."""


class ColumnRows(Columns, Protocol[A]):
    """An array with one row [H] per column of a sequence."""

    def write(self, start: int, rows: A) -> None:
        """Store rows [n, H] of the columns from `start` on."""

    def read(self, start: int, stop: int) -> A:
        """The rows [n, H] of columns `start` to `stop`; callers must not modify them."""


class StoredStates(NamedTuple, Generic[A]):
    """What a head reads of a target's columns."""

    states: ColumnRows[A]
    """Hidden states after the last norm, a row for each column that was fed."""
    embeddings: ColumnRows[A]


class State(NamedTuple):
    """Which columns of a target's row and cache are valid; always replaced as a whole."""

    length: int = 0
    fed: int = 0
    """Number of tokens in the cache: all but the last, or all after a rewind into a prompt."""
    verified: Verdict | None = None
    """The verdict whose paths the next commit may accept."""


class TargetSequence(ABC, Generic[A]):
    """Implements `mmspec.seam.InspectableTarget` and `HiddenStates`; subclasses add forwards."""

    def __init__(
        self, framework: Framework[A], cache: Columns, place: Projection[A], sampling: Sampling
    ) -> None:
        """cache: an empty cache of one row.  place: computes embeddings of an image's features."""
        self._framework, self._cache, self._place = framework, cache, place
        self._sampler = framework.sampler(sampling)
        self._row: Row[A] = Row()
        self._state = State()
        self._stored: StoredStates[A] | None = None

    @property
    def length(self) -> int:
        """Number of tokens in the sequence, including the last one, which is not fed yet."""
        return self._state.length

    def extend(self, segment: Segment) -> None:
        """Append a segment and feed all but its last token."""
        length, fed = self._state.length, self._state.fed
        end = length + len(segment)
        with self._framework.inference():
            self._row.append(length, segment, self._place)
            self._prefill(fed, end - 1)
        self._state = State(end, max(fed, end - 1))

    def rewind(self, length: int) -> None:
        """Remove all tokens from `length` on."""
        if not 0 <= length <= self.length:
            raise ValueError(f"cannot rewind {self.length} tokens to {length}")
        self._state = State(length, min(self._state.fed, length))

    def verify(self, draft: Draft | None, noise: Noise) -> Verdict:
        """Run the target once over its last token and the draft; returns the verdict.  Blocks."""
        state = self._state = self._state._replace(verified=None)
        framework = self._framework
        with framework.inference():
            own = self._on_device(draft)
            ancestry = own.ancestry(framework.xp) if own else None
            logits = self._feed(own, ancestry)
            keys = framework.keys(noise, 1 + (own.depth if own else 0))
            keys = framework.pick(keys, ancestry.depths) if ancestry else keys
            verdict = read_verdict(framework, own, logits, self._sampler.tokens(logits, keys))
            self._settle_states()
        self._state = state._replace(verified=verdict)
        return verdict

    def commit(self, path: Sequence[int], token: int) -> None:
        """Append the nodes on `path` of the last verified draft, then `token`."""
        length, verified = self._state.length, self._state.verified
        if verified is None:
            raise ValueError("nothing was verified just now that could be committed")
        tokens = verified.along(path)
        if list(path) != list(range(len(path))):
            self._state = self._state._replace(verified=None)
            columns = [length + node for node in path]
            self._cache.gather(length, columns)
            for rows in self._stored or ():
                rows.gather(length, columns)
        self._row.extend(length, [*tokens, token])
        self._state = State(length + len(path) + 1, length + len(path))

    def logits(self) -> Float32:
        """Next-token logits [V] on the host.  Blocks; changes nothing."""
        with self._framework.inference():
            host: Float32 = self._framework.to_host(self._feed(None, None))[0]
            return host

    def hidden_states(self) -> "TargetSequence[A]":
        """Store hidden states and embeddings from now on; feeds the columns in the cache again."""
        if self._stored is None:
            self._stored = StoredStates(self._new_rows(), self._new_rows())
            with self._framework.inference():
                self._prefill(0, self._state.fed)
        return self

    def states(self, start: int, stop: int) -> A:
        """The hidden states [n, H] of fed columns; raises ValueError if none are stored."""
        return self._readable.states.read(start, stop)

    def embeddings(self, start: int, stop: int) -> A:
        """The embeddings [n, H] of any columns.  Raises ValueError if none are stored."""
        fed = self.length - 1
        fed_rows = self._readable.embeddings.read(start, min(stop, fed))
        if stop <= fed:
            return fed_rows
        with self._framework.inference():
            rest = self._embed_columns(max(start, fed), stop)
            return self._framework.concat([fed_rows, rest], 0) if len(fed_rows) else rest

    @property
    def _readable(self) -> StoredStates[A]:
        if self._stored is None:
            raise ValueError("this target keeps no hidden states: call hidden_states() first")
        return self._stored

    def _on_device(self, draft: Draft | None) -> DeviceDraft[A] | None:
        framework = self._framework
        if isinstance(draft, HostDraft):
            return framework.draft_type(framework.integers(draft.tokens))
        if draft is not None and not isinstance(draft, framework.draft_type):
            raise TypeError(f"a {type(draft).__name__} was not drafted by this backend")
        return draft

    def _prefill(self, start: int, end: int) -> None:
        for at, stop in chunks(start, end):
            x = self._recorded(self._embed_columns(at, stop), at)
            outputs = self._append(x, at)
            if self._stored:
                self._states(outputs, at)
            self._cache.settle()
            self._settle_states()

    def _feed(self, draft: DeviceDraft[A] | None, ancestry: Ancestry | None) -> A:
        """Feed the last token and a draft; returns the logits [n + 1, V] after each of them."""
        start = self.length - 1
        if start < 0:
            raise ValueError("an empty sequence has no next token: extend it first")
        x = self._embed_columns(start, start + 1)
        if draft is not None:
            x = self._framework.concat([x, self.embed(draft.ids)], 0)
        x = self._recorded(x, start)
        if draft is None or ancestry is None:
            outputs = self._append(x, start)
        else:
            outputs = self._branch(x, start, ancestry, draft.levels)
        return self.project(self._states(outputs, start))

    def _settle_states(self) -> None:
        for rows in self._stored or ():
            rows.settle()

    def _recorded(self, x: A, start: int) -> A:
        """`x` itself, after storing it for a head, because feeding may overwrite it."""
        if self._stored:
            self._stored.embeddings.write(start, x)
        return x

    def _states(self, outputs: A, start: int) -> A:
        """The hidden states [n, H] of columns from `start` on, after storing them for a head."""
        states = self._normalised(outputs)
        if self._stored:
            self._stored.states.write(start, states)
        return states

    @abstractmethod
    def embed(self, ids: A) -> A:
        """Embeddings [n, H] of drafted ids [n]; starts computing them."""

    @abstractmethod
    def project(self, states: A) -> A:
        """Logits [n, V] of hidden states [n, H]."""

    @abstractmethod
    def _embed_columns(self, start: int, stop: int) -> A:
        """Embeddings [n, H] of columns `start` to `stop`, images included."""

    @abstractmethod
    def _append(self, x: A, start: int) -> A:
        """Feed x [n, H] to the columns from `start` on; returns the last layer's output [n, H]."""

    @abstractmethod
    def _branch(self, x: A, start: int, ancestry: Ancestry, levels: int) -> A:
        """Feed the last token and a tree; returns outputs [n + 1, H].  Nodes see only ancestors."""

    @abstractmethod
    def _normalised(self, outputs: A) -> A:
        """The hidden states [n, H] of the last layer's outputs."""

    @abstractmethod
    def _new_rows(self) -> ColumnRows[A]:
        """Empty rows for hidden states or embeddings."""
