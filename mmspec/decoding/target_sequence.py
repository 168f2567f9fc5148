"""What every backend's target keeps on the host: lengths, the last verdict and what a head reads.

Shape letters: n rows fed or drafted, V vocabulary, H width.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, Generic, NamedTuple

from mmspec.decoding.acceptance import Verdict, read_verdict
from mmspec.decoding.contents import Projection, Row, chunks
from mmspec.decoding.contract import Float32, Segment
from mmspec.decoding.draft import Ancestry, DeviceDraft, Draft
from mmspec.decoding.exact_rows import ExactRows
from mmspec.decoding.feeding import Columns, ExactFeeding, Feeding, Outputs
from mmspec.decoding.language import Language, embed_row
from mmspec.decoding.noise import Noise
from mmspec.decoding.sampling import Sampling
from mmspec.decoding.stored_states import LayerCaches, Rows, StoredStates
from mmspec.ground.arrays import A, Positions
from mmspec.ground.errors import DraftError


class TargetState(NamedTuple):
    """Which columns of a target's row and cache are valid; always replaced as a whole."""

    length: int = 0
    verdict: Verdict | None = None
    """The verdict whose paths the next commit may accept."""


class Run(NamedTuple):
    """Columns that were fed in one way, up to the next run."""

    start: int
    is_answer: bool
    """True if they were decoded, or fed as an earlier answer."""


class TargetSequence(ABC, Generic[A]):
    """Implements `contract.Target` and `contract.HiddenStates`; subclasses add forwards."""

    def __init__(
        self,
        language: Language[A],
        cache: LayerCaches[A],
        place: Projection[A],
        sampling: Sampling,
        exact: ExactRows | None = None,
    ) -> None:
        """cache: an empty cache of one row.  place: returns the rows [N, W] of an image."""
        framework = self._framework = language.framework
        self._language, self._cache, self._place = language, cache, place
        self._feeding = ExactFeeding(framework, exact) if exact else Feeding[A]()
        self._sampler = framework.sampler(sampling)
        self._row: Row[A] = Row()
        self._state = TargetState()
        self._store: StoredStates[A] | None = None
        self._captured_layers: tuple[int, ...] = ()
        self._runs: list[Run] = []

    @property
    def length(self) -> int:
        """Number of tokens in the sequence, including the last one, which is not fed yet."""
        return self._state.length

    def extend(self, segment: Segment) -> None:
        """Append a segment and feed all but its last token."""
        end = self.length + len(segment)
        with self._framework.inference():
            self._row.append(self.length, segment, self._place)
            run = Run(self._cache_length, segment.is_answer)
            self._resume(run, decodes=False)
            self._feed_run(run, end - 1)
        self._state = TargetState(end)

    def rewind(self, length: int) -> None:
        """Remove all tokens from `length` on."""
        if not 0 <= length <= self.length:
            raise ValueError(f"cannot rewind {self.length} tokens to {length}")
        self._state = TargetState(length)

    def verify(self, draft: Draft | None, noise: Noise) -> Verdict:
        """Run the target once over its last token and the draft; returns the verdict.  Blocks."""
        state = self._state = self._state._replace(verdict=None)
        framework = self._framework
        with framework.inference():
            on_device = framework.own_draft(draft, self._language.config.vocab_size)
            ancestry = on_device.ancestry(framework.xp) if on_device else None
            logits = self._feed(on_device, ancestry).logits
            keys = framework.keys(noise, 1 + (on_device.depth if on_device else 0))
            keys = framework.pick(keys, ancestry.depths) if ancestry else keys
            verdict = read_verdict(framework, on_device, logits, self._sampler.tokens(logits, keys))
            self._settle_states()
        self._state = state._replace(verdict=verdict)
        return verdict

    def commit(self, path: Sequence[int], token: int) -> None:
        """Append the nodes on `path` of the last verified draft, then `token`."""
        length, verdict = self._state
        if verdict is None:
            raise ValueError("nothing was verified just now that could be committed")
        tokens = verdict.along(path)
        if list(path) != list(range(len(path))):
            self._state = self._state._replace(verdict=None)
            columns = [length + node for node in path]
            with self._framework.inference():
                self._cache.gather(length, columns)
                for rows in self._store.all() if self._store else ():
                    rows.gather(length, columns)
        self._row.extend(length, [*tokens, token])
        self._state = TargetState(length + len(path) + 1)

    def logits(self) -> Float32:
        """Next-token logits [V] of the sequence on the host.  Blocks; changes nothing."""
        with self._framework.inference():
            host: Float32 = self._framework.to_host(self._feed(None, None).logits)[0]
            return host

    def fed_rows(self, draft: Draft | None) -> tuple[Float32, Float32, Float32]:
        """Hidden states, logits, and keys and values of the last token and a draft.  Blocks."""
        framework, start = self._framework, self.length - 1
        with framework.inference():
            on_device = framework.own_draft(draft, self._language.config.vocab_size)
            ancestry = on_device.ancestry(framework.xp) if on_device else None
            states, logits = self._feed(on_device, ancestry)
            keys_values = self._cache.read(start, start + len(logits))
            to_host = framework.to_host
            return to_host(states), to_host(logits), to_host(keys_values)

    def hidden_states(self, layers: Sequence[int] = ()) -> "TargetSequence[A]":
        """Store hidden states and embeddings from now on; feeds the columns in the cache again."""
        if self._store is None or self._captured_layers != tuple(layers):
            self._captured_layers = tuple(layers)
            outputs = self._new_rows(len(layers)) if layers else None
            self._store = StoredStates(self._new_rows(1), self._new_rows(1), outputs)
            with self._framework.inference():
                self._feed_again(0, self._cache_length)
        return self

    def states(self, start: int, stop: int) -> A:
        """The hidden states [n, H] of fed columns; raises ValueError if none are stored."""
        return self._readable.states.read(start, stop)

    def layer_outputs(self, start: int, stop: int) -> A:
        """The captured layers' outputs [n, c H] of fed columns; ValueError if none are stored."""
        outputs = self._readable.layer_outputs
        if outputs is None:
            raise ValueError("this target keeps no layers: name them in hidden_states()")
        return outputs.read(start, stop)

    def embeddings(self, start: int, stop: int) -> A:
        """The embeddings [n, H] of any columns.  Raises ValueError if none are stored."""
        end = self._cache_length
        earlier = self._readable.embeddings.read(start, min(stop, end))
        if stop <= end:
            return earlier
        with self._framework.inference():
            later = embed_row(self._language, self._row, max(start, end), stop)
            return self._framework.concat([earlier, later], 0) if len(earlier) else later

    def positions(self, start: int, stop: int) -> Positions:
        """Rotary positions [3, n] of any columns."""
        return self._row.positions(start, stop)

    def ids(self, start: int, stop: int) -> Sequence[int]:
        """Token ids [n] of columns of text."""
        return self._row.tokens[start:stop]

    @property
    def _cache_length(self) -> int:
        """The number of columns before the last token, whose content is in the cache."""
        return max(self.length - 1, 0)

    @property
    def _readable(self) -> StoredStates[A]:
        if self._store is None:
            raise ValueError("this target keeps no hidden states: call hidden_states() first")
        return self._store

    def prefill(self, start: int, stop: int) -> None:
        """Feed the columns `start` to `stop` as those of a prompt."""
        for low, high in chunks(start, stop):
            self.forward(self.embed_columns(low, high), Columns(low))
            self.settle()

    def embed_columns(self, start: int, stop: int) -> A:
        """Embeddings [n, H] of columns, after storing them for a head: feeding may change them."""
        return self._store_embeddings(embed_row(self._language, self._row, start, stop), start)

    def forward(self, x: A, columns: Columns) -> A:
        """Feed x [m, H] to columns; returns the hidden states [m, H], after storing them."""
        if recurrent := self._cache.states:
            recurrent.steps = columns.steps
        outputs, store = self._forward(x, columns), self._store
        if store and store.layer_outputs:
            outputs, earlier = self._split_outputs(outputs)
            store.layer_outputs.write(columns.first, earlier)
        states = self._language.states(outputs)
        if store:
            store.states.write(columns.first, states)
        return states

    def _resume(self, run: Run, *, decodes: bool) -> None:
        """Begin a run, with recurrent layers as they were at its first column."""
        earlier = [past for past in self._runs if past.start < run.start]
        goes_on = run.is_answer and earlier and earlier[-1].is_answer
        self._runs = earlier if goes_on else [*earlier, run]
        if states := self._cache.states:
            if (column := states.resume(run.start)) < run.start:
                self._feed_again(column, run.start)
            states.mark(decodes=decodes)

    def _feed_again(self, start: int, stop: int) -> None:
        """Feed columns as they were fed before."""
        if states := self._cache.states:
            states.resume(start)
        ends = [*(run.start for run in self._runs[1:]), stop]
        for run, end in zip(self._runs, ends, strict=False):
            self._feed_run(Run(max(run.start, start), run.is_answer), min(end, stop))

    def _feed_run(self, run: Run, stop: int) -> None:
        """Feed a run's columns before `stop`, if there are any."""
        if run.start < stop:
            feed = self._feeding.feed_answer if run.is_answer else TargetSequence.prefill
            feed(self, run.start, stop)

    def settle(self) -> None:
        """Wait until all writes are computed, in a framework that computes lazily."""
        self._cache.settle()
        self._settle_states()

    def _feed(self, draft: DeviceDraft[A] | None, ancestry: Ancestry | None) -> Outputs[A]:
        """Feed the last token and a draft of n tokens."""
        start = self.length - 1
        if start < 0:
            raise ValueError("an empty sequence has no next token: extend it first")
        if not self._row.counts_up(start, start + 1):
            raise ValueError("nothing is decoded after an image: extend by text first")
        if ancestry and self._cache.states:
            raise DraftError("recurrent layers follow a chain alone: draft without parents")
        self._row.cut(self.length)  # columns that a rewind left are not those of a draft
        self._resume(Run(start, is_answer=True), decodes=True)
        x = embed_row(self._language, self._row, start, start + 1)
        if draft is not None:
            x = self._framework.concat([x, self.embed(draft.ids)], 0)
        x = self._store_embeddings(x, start)
        depth = draft.depth if draft else 0
        return self._feeding.feed(self, x, Columns(start, ancestry, start, depth, None, len(x)))

    def _settle_states(self) -> None:
        """Wait for what no logits need; else only this thread could compute it (MLX)."""
        arrays = [rows.array for rows in self._store.all()] if self._store else []
        if states := self._cache.states:
            arrays += states.latest()
        if arrays:
            self._framework.settle(*arrays)

    def _store_embeddings(self, x: A, start: int) -> A:
        """Store x for a head, because feeding may overwrite it; returns x itself."""
        if self._store:
            self._store.embeddings.write(start, x)
        return x

    def embed(self, ids: A) -> A:
        """Embeddings [n, H] of drafted ids [n]; starts computing them."""
        return self._language.embed(ids)

    def project(self, states: A) -> A:
        """Logits [n, V] of hidden states [n, H]."""
        return self._language.project(states)

    def _split_outputs(self, outputs: Any) -> tuple[A, A]:
        """The last layer's outputs [n, H] and the captured layers' [n, c H].

        The former are a copy, of which the norm computes the bits that it does without the latter.
        """
        width = self._language.config.hidden_size
        return self._framework.concat([outputs[:, :width]], -1), outputs[:, width:]

    def _new_rows(self, count: int) -> Rows[A]:
        """Empty rows of width `count` H."""
        width = count * self._language.config.hidden_size
        return Rows(self._framework, width, self._language.dtype)

    @abstractmethod
    def _forward(self, x: A, columns: Columns) -> A:
        """Feed x [m, H]; returns the last layer's output [m, H].

        The outputs of the captured layers are beside it, [m, (1 + c) H]. Where attention is by
        blocks, every column up to the end of a block has finite content.
        """
