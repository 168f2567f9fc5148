"""What every backend's target keeps on the host: lengths, the last verdict and what a head reads.

Shape letters: n rows fed or drafted, V vocabulary, H width.
"""

from collections.abc import Sequence
from typing import NamedTuple

from mmspec.decoding.acceptance import Verdict, read_verdict
from mmspec.decoding.contract import Float32, Segment
from mmspec.decoding.draft import Ancestry, DeviceDraft, Draft
from mmspec.decoding.feeding import CachedSequence, Columns, Run
from mmspec.decoding.language import embed_row
from mmspec.decoding.noise import Noise
from mmspec.decoding.stored_states import Rows, StoredStates
from mmspec.ground.arrays import A, Positions
from mmspec.ground.errors import DraftError


class TargetState(NamedTuple):
    """Which columns of a target's row and cache are valid; always replaced as a whole."""

    length: int = 0
    verdict: Verdict | None = None
    """The verdict whose paths the next commit may accept."""


class TargetSequence(CachedSequence[A]):
    """Implements `contract.Target` and `contract.HiddenStates`; subclasses add forwards."""

    _state = TargetState()

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
            on_device, ancestry, _, logits = self._feed(draft)
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
            host: Float32 = self._framework.to_host(self._feed(None)[-1])[0]
            return host

    def fed_rows(self, draft: Draft | None) -> tuple[Float32, Float32, Float32]:
        """Hidden states, logits, and keys and values of the last token and a draft.  Blocks."""
        to_host, start = self._framework.to_host, self.length - 1
        with self._framework.inference():
            *_, states, logits = self._feed(draft)
            keys_values = self._cache.read(start, start + len(logits))
            return to_host(states), to_host(logits), to_host(keys_values)

    def hidden_states(self, layers: Sequence[int] = ()) -> "TargetSequence[A]":
        """Store hidden states and embeddings from now on; feeds the columns in the cache again."""
        if self._store is None or self._captured_layers != tuple(layers):
            before, language = (self._store, self._captured_layers), self._language
            width, dtype = language.config.hidden_size, language.dtype
            states, embeddings = (Rows(self._framework, width, dtype) for _ in range(2))
            outputs = Rows(self._framework, width * len(layers), dtype) if layers else None
            try:
                self._captured_layers = tuple(layers)
                self._store = StoredStates(states, embeddings, outputs)
                with self._framework.inference():
                    self._feed_again(0, self._cache_length)
            except BaseException:  # else a head would read columns that were not stored
                self._store, self._captured_layers = before
                raise
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

    def _feed(self, draft: Draft | None) -> tuple[DeviceDraft[A] | None, Ancestry | None, A, A]:
        """Feed the last token and a draft of n tokens.

        Returns the draft on the device, its ancestry, and what `Feeding.feed` returns.
        """
        framework, start = self._framework, self.length - 1
        on_device = framework.own_draft(draft, self._language.config.vocab_size)
        ancestry = on_device.ancestry(framework.xp) if on_device else None
        if start < 0:
            raise ValueError("an empty sequence has no next token: extend it first")
        if not self._row.counts_up(start, start + 1):
            raise ValueError("nothing is decoded after an image: extend by text first")
        if ancestry and self._cache.states:
            raise DraftError("recurrent layers follow a chain alone: draft without parents")
        self._row.cut(self.length)  # columns that a rewind left are not those of a draft
        self._resume(Run(start, is_answer=True), decodes=True)
        x = embed_row(self._language, self._row, start, start + 1)
        if on_device is not None:
            x = framework.concat([x, self.embed(on_device.ids)], 0)
        depth = on_device.depth if on_device else 0
        columns = Columns(start, ancestry, start, depth, None, len(x))
        x = self._store_embeddings(x, start)
        return on_device, ancestry, *self._feeding.feed(self, x, columns)
