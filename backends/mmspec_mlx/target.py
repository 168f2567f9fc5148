"""The target's sequence: plain decoding, and verification of drafted chains."""

from collections.abc import Iterator, Sequence
from itertools import islice

import mlx.core as mx
import numpy as np
from numpy.typing import NDArray

from mmspec import maths
from mmspec.draft import Draft, HostDraft, Verdict, agreed, judged
from mmspec.sampling import Sampling
from mmspec.seam import Segment
from mmspec.viskip import Sight
from mmspec_mlx import host
from mmspec_mlx.draft import MlxDraft
from mmspec_mlx.formulas import Formulas
from mmspec_mlx.llama import CHUNK, Llama, additive, behind
from mmspec_mlx.prompt import Picture, Place, embed
from mmspec_mlx.trail import Trail

Seen = tuple[mx.array, ...]
"""What a forward that was watched gave to images, [n + 1]; empty where none was."""


class MlxTarget:
    """See `mmspec.seam.Target`.  Columns below `_fed` are valid, and fewer than the tokens."""

    def __init__(self, llama: Llama, place: Place, sampling: Sampling, watch: bool) -> None:
        """Start empty; see `mmspec.seam.Model.open_target`."""
        self._llama = llama
        self._place = place
        self._greedy = sampling.greedy
        self._formulas = Formulas(llama.kernels, sampling)
        self._watch = watch
        self._cache = llama.new_cache(rows=1)
        self._ids: list[int] = []
        self._pictures: list[Picture] = []
        self._fed = 0
        self._verified: Verdict | None = None
        self._trail: Trail | None = None

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
            self._settle()
        self._ids, self._pictures, self._fed = ids, pictures, max(len(ids) - 1, 0)
        self._verified = None

    def rewind(self, length: int) -> None:
        """Forget all tokens from `length` on (0 <= length <= self.length)."""
        if not 0 <= length <= self.length:
            raise ValueError(f"cannot rewind {self.length} tokens to {length}")
        cut = [picture.before(length) for picture in self._pictures if picture.start < length]
        fed = min(self._fed, max(length - 1, 0))
        self._ids, self._pictures, self._fed = self._ids[:length], cut, fed
        self._verified = None

    def verify(self, draft: Draft | None, draws: Sequence[float]) -> Verdict:
        """Run the target once over its last token and the draft, and read the outcome.  Blocks."""
        self._verified = None
        held, sight = _held(draft), self._sight()
        logits = self._logits(held, sight)
        verdict = self._read(logits, held, (sight.seen,) if sight else (), draws)
        if self._trail:
            self._trail.settle()
        self._verified = verdict
        return verdict

    def commit(self, path: Sequence[int], token: int) -> None:
        """Append the nodes on `path` of the draft verified last, then `token`."""
        verified = self._verified
        if verified is None:
            raise ValueError("nothing was verified just now that could be committed")
        tokens = verified.along(path)
        self._verified = None
        if list(path) != list(range(len(path))):
            columns = [self.length + node for node in path]
            self._cache.gather(self.length, columns)
            if self._trail:
                self._trail.gather(self.length, columns)
        self._ids += [*tokens, token]
        self._fed = self.length - 1

    def logits(self) -> NDArray[np.float32]:
        """Next-token logits [V] of the sequence on the host.  Blocks; changes nothing."""
        return host.float32(self._logits(None)[0])

    def keep_trail(self) -> None:
        """Keep hidden states and embeddings from now on, for a head; what is fed is fed again."""
        if self._trail is None:
            self._trail = Trail(self._llama.config.hidden_size, self._llama.dtype)
            for start in range(0, self._fed, CHUNK):
                part = self._ids[start : min(start + CHUNK, self._fed)]
                self._feed(embed(self._llama, part, self._pictures, start), start)
                self._settle()

    def states(self, start: int, stop: int) -> mx.array:
        """Normalised hidden states [n, H] of columns that are fed.

        Raises ValueError where no trail is kept.
        """
        return self._kept.states(start, stop)

    def inputs(self, start: int, stop: int) -> mx.array:
        """Embeddings [n, H] of columns, those not fed yet included.

        Raises ValueError where no trail is kept.
        """
        held = self._kept.embeddings(start, min(stop, self._fed))
        if stop <= self._fed:
            return held
        low = max(start, self._fed)
        rest = embed(self._llama, self._ids[low:stop], self._pictures, low)
        return mx.concatenate([held, rest]) if len(held) else rest

    @property
    def _kept(self) -> Trail:
        if self._trail is None:
            raise ValueError("this target keeps no trail: call keep_trail first")
        return self._trail

    def _settle(self) -> None:
        self._cache.settle()
        if self._trail:
            self._trail.settle()

    def _sight(self) -> Sight | None:
        """What the next forward watches; nothing where there is no image."""
        images = [picture.span for picture in self._pictures] if self._watch else []
        return Sight(images) if images else None

    def _feed(self, rows: mx.array, at: int, sight: Sight | None = None) -> mx.array:
        """Feed embeddings [n, H] from column `at` on; return hidden states [n, H]."""
        return self._noted(rows, at, self._llama.append(rows, self._cache, at, sight))

    def _noted(self, rows: mx.array, at: int, hidden: mx.array) -> mx.array:
        """The hidden states that embeddings fed at `at` gave, both [n, H], on the trail."""
        if self._trail:
            self._trail.write(at, rows, self._llama.states(hidden))
        return hidden

    def _logits(self, draft: MlxDraft | None, sight: Sight | None = None) -> mx.array:
        """Logits [n + 1, V] after the last token and after each drafted one.

        Also feeds what precedes the last token and, after a rewind, is not fed.
        """
        rows = embed(self._llama, self._ids[self._fed :], self._pictures, self._fed)
        if draft is None:
            return self._llama.logits(self._feed(rows, self._fed, sight)[-1:])
        rows = mx.concatenate([rows, self._llama.embedding.rows(draft.ids)])
        if draft.parents is None:
            hidden = self._feed(rows, self._fed, sight)
        else:
            hidden = self._branch(rows, draft.parents, draft.levels, sight)
        return self._llama.logits(hidden[-draft.size - 1 :])

    def _branch(
        self, rows: mx.array, parents: mx.array, levels: int, sight: Sight | None
    ) -> mx.array:
        """Feed the last token and a tree after it, a node seeing what is above it: [n + 1, H]."""
        at = self.length - 1
        seen = maths.ancestry(mx, parents, levels)
        positions = mx.expand_dims(at + mx.sum(seen, axis=-1) - 1, 0)
        turn = self._llama.rotary.each(positions, at + levels)
        mask = behind(at, additive(seen, rows.dtype))
        hidden = self._llama.feed(mx.expand_dims(rows, 0), self._cache, at, turn, mask, sight)[0]
        return self._noted(rows, at, hidden)

    def _read(
        self, logits: mx.array, draft: MlxDraft | None, seen: Seen, draws: Sequence[float]
    ) -> Verdict:
        if draft and draft.evidence:
            draft.evidence.logits = logits[:-1].astype(mx.float32)
        if self._greedy:
            return _greedy(logits, draft, seen)
        return _sampled(self._formulas, logits, draft, seen, draws)


def _held(draft: Draft | None) -> MlxDraft | None:
    """The draft on the device; the host's tokens are uploaded."""
    if isinstance(draft, HostDraft):
        return MlxDraft(host.ids(draft.tokens))
    if draft is not None and not isinstance(draft, MlxDraft):
        raise TypeError(f"a draft of another backend: {type(draft).__name__}")
    return draft


def _greedy(logits: mx.array, draft: MlxDraft | None, seen: Seen) -> Verdict:
    """Keep a token if and only if it is the target's argmax."""
    best = mx.argmax(logits, axis=-1)
    if draft is None:
        return _plain(best, seen)
    if draft.parents is not None:
        return agreed(*_values(draft.ids, draft.parents, best, *seen))
    drafted, fallback, *rest = _values(draft.ids, best, _fitted(draft), *seen)
    accept = [float(token == choice) for token, choice in zip(drafted, fallback, strict=False)]
    return _verdict(drafted, accept, fallback, *rest)


def _sampled(
    formulas: Formulas, logits: mx.array, draft: MlxDraft | None, seen: Seen, draws: Sequence[float]
) -> Verdict:
    """Judge a chain or a tree by `mmspec.maths`; everything is read in one array."""
    p, uniforms = formulas.warped(logits), host.numbers(draws)
    if draft is None:
        return _plain(formulas.drawn(p, uniforms), seen)
    drafted = draft.ids
    if draft.parents is not None:
        scores = formulas.judged_tree(p, drafted, draft.parents, uniforms)
        return judged(*_values(drafted, draft.parents, *scores, *seen))
    q = maths.point_mass(mx, drafted, p[:-1]) if draft.q is None else draft.q
    said = formulas.judged(p, q, drafted, uniforms)
    return _verdict(*_values(drafted, *said, _fitted(draft), *seen))


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
