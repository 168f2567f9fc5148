"""The target's sequence: plain decoding, and verification of drafted chains."""

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

import mlx.core as mx
import numpy as np
from numpy.typing import NDArray

from mmspec import maths
from mmspec.sampling import Sampling
from mmspec.seam import Draft, HostDraft, Segment, Verdict
from mmspec.viskip import Sight
from mmspec_mlx import host
from mmspec_mlx.drafter import MlxDraft
from mmspec_mlx.llama import CHUNK, Llama, causal
from mmspec_mlx.prompt import Picture, Place, embed

Seen = tuple[mx.array, ...]
"""What a forward that was watched gave to images, [k + 1]; empty where none was."""


class MlxTarget:
    """See `mmspec.seam.Target`.  Columns below `_fed` are valid, and fewer than the tokens."""

    def __init__(self, llama: Llama, place: Place, sampling: Sampling, watch: bool) -> None:
        """Start empty; see `mmspec.seam.Model.open_target`."""
        self._llama = llama
        self._place = place
        self._sampling = sampling
        self._watch = watch
        self._cache = llama.new_cache(rows=1)
        self._ids: list[int] = []
        self._pictures: list[Picture] = []
        self._fed = 0
        self._verified: list[int] = []

    @property
    def length(self) -> int:
        """Tokens in the sequence, the one not yet fed included."""
        return len(self._ids)

    def extend(self, segment: Segment) -> None:
        """Append a segment and feed everything but its last token."""
        ids, pictures = self._place(segment, self.length)
        ids, pictures = self._ids + ids, self._pictures + pictures
        for start in range(self._fed, len(ids) - 1, CHUNK):
            part = ids[start : min(start + CHUNK, len(ids) - 1)]
            self._feed(embed(self._llama, part, pictures, start), start)
            self._cache.settle()
        self._ids, self._pictures, self._fed = ids, pictures, max(len(ids) - 1, 0)

    def rewind(self, length: int) -> None:
        """Forget all tokens from `length` on (0 <= length <= self.length)."""
        if not 0 <= length <= self.length:
            raise ValueError(f"cannot rewind {self.length} tokens to {length}")
        cut = [picture.before(length) for picture in self._pictures if picture.start < length]
        fed = min(self._fed, max(length - 1, 0))
        self._ids, self._pictures, self._fed = self._ids[:length], cut, fed

    def verify(self, draft: Draft | None, draws: Sequence[float]) -> Verdict:
        """Run the target once over its last token and the draft, and read the outcome.  Blocks."""
        chain = _chain(draft)
        sight = self._sight()
        logits = self._logits(chain.ids if chain else (), sight)
        verdict = self._read(logits, chain, (sight.seen,) if sight else (), draws)
        self._verified = verdict.drafted
        return verdict

    def commit(self, path: Sequence[int], token: int) -> None:
        """Append the nodes on `path` of the draft verified last, then `token`."""
        kept = len(path)
        if list(path) != list(range(kept)) or kept > len(self._verified):
            raise ValueError(f"not a path of the chain verified last: {list(path)}")
        self._ids += [*self._verified[:kept], token]
        self._fed = self.length - 1
        self._verified = []

    def logits(self) -> NDArray[np.float32]:
        """Next-token logits [V] of the sequence on the host.  Blocks; changes nothing."""
        return host.float32(self._logits(())[0])

    def _sight(self) -> Sight | None:
        """What the next forward watches; nothing where there is no image."""
        images = [picture.span for picture in self._pictures] if self._watch else []
        return Sight(images) if images else None

    def _feed(self, rows: mx.array, at: int, sight: Sight | None = None) -> mx.array:
        """Feed embeddings [n, H] from column `at` on; return hidden states [n, H]."""
        mask = causal(at, rows.shape[0], rows.dtype)
        return self._llama.feed(mx.expand_dims(rows, 0), self._cache, at, [at], mask, sight)[0]

    def _logits(self, chain: Sequence[mx.array], sight: Sight | None = None) -> mx.array:
        """Logits [k + 1, V] after the last token and after each of the drafted `chain`, k of [1].

        Also feeds what precedes the last token and, after a rewind, is not fed.
        """
        rows = embed(self._llama, self._ids[self._fed :], self._pictures, self._fed)
        if chain:
            drafted = self._llama.embedding.rows(mx.concatenate(list(chain)))
            rows = mx.concatenate([rows, drafted])
        hidden = self._feed(rows, self._fed, sight)
        return self._llama.logits(hidden[-len(chain) - 1 :])

    def _read(
        self, logits: mx.array, draft: MlxDraft | None, seen: Seen, draws: Sequence[float]
    ) -> Verdict:
        if draft and draft.evidence:
            draft.evidence.logits = logits[:-1].astype(mx.float32)
        if self._sampling.greedy:
            return _greedy(logits, draft, seen)
        return _sampled(self._llama.kernels.arrays, logits, draft, seen, draws, self._sampling)


def _chain(draft: Draft | None) -> MlxDraft | None:
    """The draft on the device; the host's tokens are uploaded."""
    if isinstance(draft, HostDraft):
        return MlxDraft([host.ids([token]) for token in draft.tokens], [])
    if draft is not None and not isinstance(draft, MlxDraft):
        raise TypeError(f"a draft of another backend: {type(draft).__name__}")
    return draft


def _greedy(logits: mx.array, draft: MlxDraft | None, seen: Seen) -> Verdict:
    """Keep a token if and only if it is the target's argmax."""
    best = mx.argmax(logits, axis=-1)
    if draft is None:
        return _plain(best, seen)
    drafted, fallback, *rest = _values(mx.concatenate(draft.ids), best, _fitted(draft), *seen)
    accept = [float(token == choice) for token, choice in zip(drafted, fallback, strict=False)]
    return _verdict(drafted, accept, fallback, *rest)


def _sampled(
    xp: Any,
    logits: mx.array,
    draft: MlxDraft | None,
    seen: Seen,
    draws: Sequence[float],
    sampling: Sampling,
) -> Verdict:
    """Judge a chain by `mmspec.maths.judge`; everything is read in one array."""
    p = maths.warp(xp, maths.softmax(xp, logits), sampling)
    uniforms = host.numbers(draws)
    if draft is None:
        return _plain(maths.draw(xp, p, uniforms), seen)
    drafted = mx.concatenate(draft.ids)
    q = maths.point_mass(xp, drafted, p[:-1]) if not draft.q else mx.concatenate(draft.q)
    judged = maths.judge(xp, p, q, drafted, uniforms)
    return _verdict(*_values(drafted, *judged, _fitted(draft), *seen))


def _fitted(draft: MlxDraft) -> mx.array:
    """Return the weights [R] that the drafter fitted for this draft, or none."""
    return draft.evidence.weights if draft.evidence else mx.zeros(0)


def _values(*parts: mx.array) -> Iterator[list[float]]:
    """Copy vectors to the host at once.  Token ids are exact in float32: they are below 2**24."""
    numbers = iter(host.floats(mx.concatenate([part.astype(mx.float32) for part in parts])))
    return (list(islice(numbers, part.shape[0])) for part in parts)


def _plain(fallback: mx.array, seen: Seen) -> Verdict:
    """Put together the verdict where nothing was drafted."""
    if not seen:
        return Verdict([], [], [], host.integers(fallback))
    token, shares = _values(fallback, *seen)
    return Verdict([], [], [], [*map(int, token)], seen=shares)


def _verdict(
    drafted: list[float], accept: list[float], fallback: list[float], *rest: list[float]
) -> Verdict:
    """Put together a chain's verdict; `rest`: weights and, where watched, what was seen."""
    parents = list(range(-1, len(drafted) - 1))
    return Verdict([*map(int, drafted)], parents, accept, [*map(int, fallback)], *rest)
