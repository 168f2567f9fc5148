"""One sequence as the target sees it.

Shape letters: k drafted tokens, V vocabulary, H width.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING

import array_api_compat.torch as xp
import torch
from torch import Tensor

from mmspec import maths
from mmspec.sampling import Sampling
from mmspec.seam import Draft, Float32, HostDraft, Segment, Verdict
from mmspec.viskip import Sight
from mmspec_torch.device import upload
from mmspec_torch.drafter import TorchDraft
from mmspec_torch.llama import Step, causal_mask, chunks
from mmspec_torch.row import Row

if TYPE_CHECKING:
    from mmspec_torch.llava import TorchModel


Seen = tuple[Tensor, ...]
"""What a forward that was watched gave to images, [k + 1]; empty where none was."""


@dataclass(frozen=True, slots=True)
class State:
    """What counts of a target's row and cache, always replaced as a whole."""

    length: int = 0
    fed: int = 0
    """Tokens in the cache: all but the last, or all where a rewind cut into a prompt."""
    verified: list[int] | None = None
    """The drafted tokens that a commit may keep."""


class TorchTarget:
    """Implements `mmspec.seam.Target`."""

    def __init__(self, model: "TorchModel", sampling: Sampling, watch: bool) -> None:
        """Start empty."""
        self._model, self._llama, self._sampling = model, model.llama, sampling
        self._watch = watch
        self._cache = model.llama.new_cache(rows=1)
        self._row = Row()
        self._state = State()

    @property
    def length(self) -> int:
        """Tokens in the sequence, the one not yet fed included."""
        return self._state.length

    @torch.inference_mode()
    def extend(self, segment: Segment) -> None:
        """Append a segment and feed everything but its last token."""
        length, fed = self._state.length, self._state.fed
        self._row.append(length, segment, 0, self._model.config.image_token_id)
        end = length + len(segment.tokens)
        self._prefill(fed, end - 1)
        self._state = State(end, max(fed, end - 1))

    def rewind(self, length: int) -> None:
        """Forget all tokens from `length` on."""
        if not 0 <= length <= self.length:
            raise ValueError(f"cannot rewind {self.length} tokens to {length}")
        self._state = State(length, min(self._state.fed, length))

    @torch.inference_mode()
    def verify(self, draft: Draft | None, draws: Sequence[float]) -> Verdict:
        """Run once over the last token and the draft, and read the outcome."""
        state = self._state = replace(self._state, verified=None)
        chain = self._chain(draft)
        sight = self._sight()
        logits = self._feed(chain, sight)
        read = self._greedy if self._sampling.greedy else self._sampled
        if chain and chain.evidence:
            chain.evidence.logits = logits[:-1].float()
        verdict = read(logits, chain, (sight.seen,) if sight else (), draws)
        self._state = replace(state, verified=verdict.drafted)
        return verdict

    def commit(self, path: Sequence[int], token: int) -> None:
        """Append the nodes on `path` of the draft verified last, then `token`."""
        length, verified = self._state.length, self._state.verified
        if verified is None or list(path) != list(range(min(len(path), len(verified)))):
            raise ValueError(f"path {list(path)} does not start a chain verified just now")
        self._row.extend(length, [*verified[: len(path)], token])
        self._state = State(length + len(path) + 1, length + len(path))

    @torch.inference_mode()
    def logits(self) -> Float32:
        """Next-token logits [V] on the host."""
        host: Float32 = self._feed(None)[0].float().cpu().numpy()
        return host

    def _chain(self, draft: Draft | None) -> TorchDraft | None:
        """The draft on this device; the host's tokens are uploaded."""
        if isinstance(draft, HostDraft):
            return TorchDraft(upload(draft.tokens, torch.long, self._llama.device), None)
        if draft is not None and not isinstance(draft, TorchDraft):
            raise TypeError(f"a {type(draft).__name__} was not drafted by this backend")
        return draft

    def _prefill(self, start: int, end: int) -> None:
        if start >= end:
            return
        x = self._model.embed(self._row, start, end)
        for at, stop in chunks(start, end):
            self._forward(x[at - start : stop - start], at, stop)

    def _sight(self) -> Sight | None:
        """What the next forward watches; nothing where there is no image."""
        images = self._row.shown(self.length) if self._watch else []
        return Sight(images) if images else None

    def _feed(self, draft: TorchDraft | None, sight: Sight | None = None) -> Tensor:
        """Logits [k + 1, V] after the last token and after each drafted one."""
        length = self.length
        if not length:
            raise ValueError("an empty sequence has no next token: extend it first")
        x = self._model.embed(self._row, length - 1, length)
        if draft is not None:
            x = torch.cat((x, self._llama.embed(draft.ids)))
        outputs = self._forward(x, length - 1, length - 1 + len(x), sight)
        return self._llama.logits(outputs)

    def _forward(self, x: Tensor, start: int, end: int, sight: Sight | None = None) -> Tensor:
        alone = end - start == 1
        step = Step(
            self._llama.rotary.run(start, end),
            self._cache.open(start, end),
            causal_mask(start, end, x) if start and not alone else None,
            causal=not start and not alone,
            sight=sight,
        )
        return self._llama.forward(x, step)

    def _greedy(
        self, logits: Tensor, draft: TorchDraft | None, seen: Seen, _: Sequence[float]
    ) -> Verdict:
        best = logits.argmax(dim=-1)
        if draft is None:
            return _plain(best, seen)
        drafted, fallback, *rest = _read(draft.ids, best, _fitted(draft), *seen)
        accept = [float(a == b) for a, b in zip(drafted, fallback, strict=False)]
        return _verdict(drafted, accept, fallback, *rest)

    def _sampled(
        self, logits: Tensor, draft: TorchDraft | None, seen: Seen, draws: Sequence[float]
    ) -> Verdict:
        p = maths.warp(xp, maths.softmax(xp, logits.float()), self._sampling)
        uniforms = upload(draws, torch.float32, self._llama.device)
        if draft is None:
            return _plain(maths.draw(xp, p, uniforms), seen)
        q = maths.point_mass(xp, draft.ids, p[:-1]) if draft.q is None else draft.q
        accept, fallback = maths.judge(xp, p, q, draft.ids, uniforms)
        return _verdict(*_read(draft.ids, accept, fallback, _fitted(draft), *seen))


def _fitted(draft: TorchDraft) -> Tensor:
    """The weights [R] that the drafter fitted for this draft, or none."""
    return draft.evidence.weights if draft.evidence else draft.ids[:0]


def _read(*parts: Tensor) -> Iterator[list[float]]:
    """Bring vectors to the host in one copy.  Ids are exact in float32 below 2**24."""
    numbers = iter(torch.cat([part.float() for part in parts]).tolist())
    return (list(islice(numbers, part.shape[0])) for part in parts)


def _plain(fallback: Tensor, seen: Seen) -> Verdict:
    """The verdict where nothing was drafted."""
    if not seen:
        return Verdict([], [], [], fallback.tolist())
    token, shares = _read(fallback, *seen)
    return Verdict([], [], [], [*map(int, token)], seen=shares)


def _verdict(
    drafted: list[float], accept: list[float], fallback: list[float], *rest: list[float]
) -> Verdict:
    """A chain's verdict; `rest` are the weights and, where it was watched, what was seen."""
    parents = list(range(-1, len(drafted) - 1))
    return Verdict([*map(int, drafted)], parents, accept, [*map(int, fallback)], *rest)
