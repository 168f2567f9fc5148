"""The target's sequence: plain decoding, and verification of drafts."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice

import mlx.core as mx
import numpy as np
from numpy.typing import NDArray

from mmspec.decoding.acceptance import Verdict, verdict_of
from mmspec.decoding.adaptive_weights import Evidence
from mmspec.decoding.draft import Draft, HostDraft
from mmspec.decoding.formulas import ancestry
from mmspec.decoding.noise import Noise
from mmspec.decoding.sampling import Sampling
from mmspec.seam import Segment
from mmspec_mlx import device_io
from mmspec_mlx.network.llama import CHUNK, additive, behind
from mmspec_mlx.network.llava import Llava
from mmspec_mlx.sequence.contents import PlacedImage, embed, row
from mmspec_mlx.sequence.draft import MlxDraft
from mmspec_mlx.sequence.hidden_states import HiddenStateCache
from mmspec_mlx.sequence.sampling import keys, sampler


class MlxTarget:
    """Implements `mmspec.seam.Target` and, for heads, `HiddenStates`.

    The first `_fed` columns are in the cache, always fewer than the tokens.
    """

    def __init__(self, llava: Llava, sampling: Sampling) -> None:
        self._llava, self._llama = llava, llava.llama
        self._sampler = sampler(sampling, llava.llama.kernels)
        self._cache = llava.llama.new_cache(rows=1)
        self._ids: list[int] = []
        self._images: list[PlacedImage] = []
        self._fed = 0
        self._verified: Verdict | None = None
        self._state_cache: HiddenStateCache | None = None

    @property
    def length(self) -> int:
        """Number of tokens in the sequence, including the last one, which is not fed yet."""
        return len(self._ids)

    def extend(self, segment: Segment) -> None:
        """Append a segment and feed all but its last token."""
        ids, images = row(segment, self.length, self._llava.projected)
        ids, images = self._ids + ids, self._images + images
        for start in range(self._fed, len(ids) - 1, CHUNK):
            part = ids[start : min(start + CHUNK, len(ids) - 1)]
            self._feed(embed(self._llama, part, images, start), start)
            self._settle()
        self._ids, self._images, self._fed = ids, images, max(len(ids) - 1, 0)
        self._verified = None

    def rewind(self, length: int) -> None:
        """Remove all tokens from `length` on (0 <= length <= self.length)."""
        if not 0 <= length <= self.length:
            raise ValueError(f"cannot rewind {self.length} tokens to {length}")
        cut = [image.before(length) for image in self._images if image.start < length]
        fed = min(self._fed, max(length - 1, 0))
        self._ids, self._images, self._fed = self._ids[:length], cut, fed
        self._verified = None

    def verify(self, draft: Draft | None, noise: Noise) -> Verdict:
        """Run the target once over its last token and the draft; returns the verdict.  Blocks."""
        self._verified = None
        own = _on_device(draft)
        paths = _paths(own)
        logits = self._logits(own, paths)
        best = self._sampler.tokens(logits, _keys(own, paths, noise))
        verdict = _verdict(own, logits, best) if own else Verdict([], [], device_io.integers(best))
        if self._state_cache:
            self._state_cache.settle()
        self._verified = verdict
        return verdict

    def commit(self, path: Sequence[int], token: int) -> None:
        """Append the nodes `path` of the last verified draft, then `token`."""
        verified = self._verified
        if verified is None:
            raise ValueError("nothing was verified just now that could be committed")
        tokens = verified.along(path)
        self._verified = None
        if list(path) != list(range(len(path))):
            columns = [self.length + node for node in path]
            self._cache.gather(self.length, columns)
            if self._state_cache:
                self._state_cache.gather(self.length, columns)
        self._ids += [*tokens, token]
        self._fed = self.length - 1

    def logits(self) -> NDArray[np.float32]:
        """Return the next-token logits [V] on the host, without changing the sequence.  Blocks."""
        return device_io.float32(self._logits(None)[0])

    def hidden_states(self) -> "MlxTarget":
        """Store hidden states and embeddings from now on; feeds the columns in the cache again."""
        if self._state_cache is None:
            self._state_cache = HiddenStateCache(self._llama.config.hidden_size, self._llama.dtype)
            for start in range(0, self._fed, CHUNK):
                part = self._ids[start : min(start + CHUNK, self._fed)]
                self._feed(embed(self._llama, part, self._images, start), start)
                self._settle()
        return self

    def states(self, start: int, stop: int) -> mx.array:
        """Return the hidden states [n, H] of fed columns.  Raises ValueError if none are stored."""
        return self._readable_states.states(start, stop)

    def embeddings(self, start: int, stop: int) -> mx.array:
        """Return the embeddings [n, H] of any columns.  Raises ValueError if none are stored."""
        fed_rows = self._readable_states.embeddings(start, min(stop, self._fed))
        if stop <= self._fed:
            return fed_rows
        low = max(start, self._fed)
        rest = embed(self._llama, self._ids[low:stop], self._images, low)
        return mx.concatenate([fed_rows, rest]) if len(fed_rows) else rest

    def embed(self, ids: mx.array) -> mx.array:
        """Return the embeddings [n, H] of drafted ids [n]; starts computing the ids."""
        return self._llama.embed(ids)

    def project(self, states: mx.array) -> mx.array:
        """Return the logits [n, V] of hidden states [n, H]."""
        return self._llama.project(states)

    @property
    def _readable_states(self) -> HiddenStateCache:
        if self._state_cache is None:
            raise ValueError("this target keeps no hidden states: call hidden_states() first")
        return self._state_cache

    def _settle(self) -> None:
        self._cache.settle()
        if self._state_cache:
            self._state_cache.settle()

    def _feed(self, rows: mx.array, at: int) -> mx.array:
        """Feed embeddings [n, H] from column `at` on; returns hidden states [n, H]."""
        return self._recorded(rows, at, self._llama.append(rows, self._cache, at))

    def _recorded(self, rows: mx.array, at: int, hidden: mx.array) -> mx.array:
        """Store the rows fed at `at` and their hidden states, both [n, H], if a head needs them."""
        if self._state_cache:
            self._state_cache.write(at, rows, self._llama.states(hidden))
        return hidden

    def _logits(self, draft: MlxDraft | None, paths: mx.array | None = None) -> mx.array:
        """Return the logits [n + 1, V] after the last token and after each drafted one.

        paths: for a tree, the result of `ancestry`.  Also feeds tokens before the last one that a
        rewind has removed from the cache.
        """
        rows = embed(self._llama, self._ids[self._fed :], self._images, self._fed)
        if draft is None:
            return self._llama.logits(self._feed(rows, self._fed)[-1:])
        rows = mx.concatenate([rows, self._llama.embedding.rows(draft.ids)])
        if paths is None:
            hidden = self._feed(rows, self._fed)
        else:
            hidden = self._branch(rows, paths, draft.levels)
        return self._llama.logits(hidden[-draft.size - 1 :])

    def _branch(self, rows: mx.array, paths: mx.array, levels: int) -> mx.array:
        """Feed the last token and a tree, whose nodes see their ancestors; returns [n + 1, H]."""
        at = self.length - 1
        positions = mx.expand_dims(at + mx.sum(paths, axis=-1) - 1, 0)
        turn = self._llama.rotary.each(positions, at + levels)
        mask = behind(at, additive(paths, rows.dtype))
        hidden = self._llama.feed(mx.expand_dims(rows, 0), self._cache, at, turn, mask)[0]
        return self._recorded(rows, at, hidden)


def _on_device(draft: Draft | None) -> MlxDraft | None:
    """Return the draft, uploaded if it is on the host."""
    if isinstance(draft, HostDraft):
        return MlxDraft(device_io.ids(draft.tokens))
    if draft is not None and not isinstance(draft, MlxDraft):
        raise TypeError(f"a draft of another backend: {type(draft).__name__}")
    return draft


def _paths(draft: MlxDraft | None) -> mx.array | None:
    """Return which nodes [n + 1, n + 1] are on the path to each; None for a chain."""
    if draft is None or draft.parents is None:
        return None
    paths: mx.array = ancestry(mx, draft.parents, draft.levels)
    return paths


def _keys(draft: MlxDraft | None, paths: mx.array | None, noise: Noise) -> mx.array:
    """Return the noise keys [n + 1, 2] of the tokens after the last token and each drafted one."""
    by_depth = keys(noise, 1 + (draft.depth if draft else 0))
    return by_depth if paths is None else by_depth[mx.sum(paths, axis=-1) - 1]


def _verdict(draft: MlxDraft, logits: mx.array, best: mx.array) -> Verdict:
    """Read the verdict on a draft from the target's logits [n + 1, V] and tokens [n + 1]."""
    branches = draft.branches
    evidence = Evidence(branches.q, logits[:-1].astype(mx.float32)) if branches else None
    weights = branches.weights if branches else mx.zeros(0)
    parents = () if draft.parents is None else (draft.parents,)
    verdict = verdict_of(*_values(draft.ids, best, weights, *parents))
    return replace(verdict, evidence=evidence)


def _values(*parts: mx.array) -> Iterator[list[float]]:
    """Copy vectors to the host at once.  Token ids are exact in float32: they are below 2**24."""
    numbers = iter(device_io.floats(mx.concatenate([part.astype(mx.float32) for part in parts])))
    return (list(islice(numbers, part.shape[0])) for part in parts)
