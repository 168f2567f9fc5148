"""One sequence as the target sees it.

Shape letters: k drafted tokens, V vocabulary, H width.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import array_api_compat.torch as xp
import torch
from torch import Tensor

from mmspec import maths
from mmspec.draft import Draft, HostDraft, Verdict, agreed, judged
from mmspec.sampling import Sampling
from mmspec.seam import Float32, Segment
from mmspec.viskip import Sight
from mmspec_torch.cache import Span
from mmspec_torch.device import upload
from mmspec_torch.draft import TorchDraft
from mmspec_torch.host import read
from mmspec_torch.llama import Step, chunks, likeliest, tree_mask
from mmspec_torch.row import Row
from mmspec_torch.static.target import ROWS, StaticTarget
from mmspec_torch.trail import Trail

if TYPE_CHECKING:
    from mmspec_torch.llava import TorchModel


Seen = tuple[Tensor, ...]
"""What a forward that was watched gave to images, [n + 1]; empty where none was."""


class State(NamedTuple):
    """What counts of a target's row and cache, always replaced as a whole."""

    length: int = 0
    fed: int = 0
    """Tokens in the cache: all but the last, or all where a rewind cut into a prompt."""
    verified: Verdict | None = None
    """What a commit may keep paths of."""


class TorchTarget:
    """Implements `mmspec.seam.Target`."""

    def __init__(self, model: "TorchModel", sampling: Sampling, watch: bool) -> None:
        """Start empty."""
        self._model, self._llama, self._sampling = model, model.llama, sampling
        self._watch = watch
        self._static = model.statics.target(self)
        self._cache = self._static.cache if self._static else model.llama.new_cache(rows=1)
        self._row = Row()
        self._state = State()
        self._trail: Trail | None = None

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
        state = self._state = self._state._replace(verified=None)
        held, sight = self._held(draft), self._sight()
        logits = self._feed(held, sight)
        read = self._greedy if self._sampling.greedy else self._sampled
        if held and held.evidence:
            held.evidence.logits = logits[:-1].float()
        verdict = read(logits, held, (sight.seen,) if sight else (), draws)
        self._state = state._replace(verified=verdict)
        return verdict

    def commit(self, path: Sequence[int], token: int) -> None:
        """Append the nodes on `path` of the draft verified last, then `token`."""
        length, verified = self._state.length, self._state.verified
        if verified is None:
            raise ValueError("nothing was verified just now that could be committed")
        tokens = verified.along(path)
        if list(path) != list(range(len(path))):
            self._state = self._state._replace(verified=None)
            self._cache.gather(length, [length + node for node in path])
            if self._trail:
                self._trail.gather(length, [length + node for node in path])
        self._row.extend(length, [*tokens, token])
        self._state = State(length + len(path) + 1, length + len(path))

    @torch.inference_mode()
    def logits(self) -> Float32:
        """Next-token logits [V] on the host."""
        host: Float32 = self._feed(None)[0].float().cpu().numpy()
        return host

    @torch.inference_mode()
    def keep_trail(self) -> None:
        """Keep hidden states and embeddings from now on, for a head; what is fed is fed again."""
        if self._trail is None:
            self._trail = Trail(self._llama)
            self._prefill(0, self._state.fed)

    def states(self, start: int, stop: int) -> Tensor:
        """Hidden states [n, H] after the last norm of columns that are fed; not to be written to.

        Raises ValueError where no trail is kept.
        """
        return self._kept.states.read(start, stop)

    def inputs(self, start: int, stop: int) -> Tensor:
        """Embeddings [n, H] of columns, the last one, not fed yet, included.

        Not to be written to.  Raises ValueError where no trail is kept.
        """
        fed = self.length - 1
        held = self._kept.embeddings.read(start, min(stop, fed))
        if stop <= fed:
            return held
        rest = self._model.embed(self._row, max(start, fed), stop)
        return torch.cat((held, rest)) if len(held) else rest

    @property
    def _kept(self) -> Trail:
        if self._trail is None:
            raise ValueError("this target keeps no trail: call keep_trail first")
        return self._trail

    def _held(self, draft: Draft | None) -> TorchDraft | None:
        """The draft on this device; the host's tokens are uploaded."""
        if isinstance(draft, HostDraft):
            return TorchDraft(upload(draft.tokens, torch.long, self._llama.device))
        if draft is not None and not isinstance(draft, TorchDraft):
            raise TypeError(f"a {type(draft).__name__} was not drafted by this backend")
        return draft

    def _prefill(self, start: int, end: int) -> None:
        if start >= end:
            return
        x = self._model.embed(self._row, start, end)
        for at, stop in chunks(start, end):
            part = self._noted(x[at - start : stop - start], at)
            outputs = self._llama.append(part, self._cache, at)
            if self._trail:
                self._states(outputs, at)

    def _sight(self) -> Sight | None:
        """What the next forward watches; nothing where there is no image."""
        images = self._row.shown(self.length) if self._watch else []
        return Sight(images) if images else None

    def _feed(self, draft: TorchDraft | None, sight: Sight | None = None) -> Tensor:
        """Logits [n + 1, V] after the last token and after each drafted one."""
        start = self.length - 1
        if start < 0:
            raise ValueError("an empty sequence has no next token: extend it first")
        if self._static and not sight and self._continues(draft, start):
            return self._fixed(self._static, draft, start)
        x = self._model.embed(self._row, start, start + 1)
        if draft is not None:
            x = torch.cat((x, self._llama.embed(draft.ids)))
        x = self._noted(x, start)
        if draft is None or draft.parents is None:
            outputs = self._llama.append(x, self._cache, start, sight)
        else:
            outputs = self._branch(x, start, draft.parents, draft.levels, sight)
        return self._llama.project(self._states(outputs, start))

    def _continues(self, draft: TorchDraft | None, start: int) -> bool:
        """Whether text is fed at `start` and a short chain after it, or nothing."""
        chain = draft is None or (draft.parents is None and draft.size < ROWS)
        spans = self._row.shown(start + 1)
        return chain and (not spans or spans[-1][1] <= start)

    def _fixed(self, static: StaticTarget, draft: TorchDraft | None, start: int) -> Tensor:
        """What `_feed` returns, in the static form."""
        [token] = self._model.clamped(self._row.tokens[start : start + 1])
        logits, states, embeddings = static.feed(token, draft.ids if draft else None, start)
        if self._trail:
            self._trail.embeddings.write(start, embeddings)
            self._trail.states.write(start, states)
        return logits

    def _branch(
        self, x: Tensor, start: int, parents: Tensor, levels: int, sight: Sight | None
    ) -> Tensor:
        """Feed the last token and a tree after it: a node sees what is above it."""
        seen = maths.ancestry(xp, parents, levels)
        angles = self._llama.rotary.after(start, seen.sum(dim=-1) - 1, levels)
        span = Span(self._cache, start, start + len(x))
        step = Step(angles, span, tree_mask(start, seen, x), sight=sight)
        return self._llama.forward(x, step)

    def _noted(self, x: Tensor, start: int) -> Tensor:
        """The embeddings to feed at `start`, on the trail before they are overwritten."""
        if self._trail:
            self._trail.embeddings.write(start, x)
        return x

    def _states(self, outputs: Tensor, start: int) -> Tensor:
        """The hidden states [n, H] of what was fed at `start`."""
        states = self._llama.states(outputs)
        if self._trail:
            self._trail.states.write(start, states)
        return states

    def _greedy(
        self, logits: Tensor, draft: TorchDraft | None, seen: Seen, _: Sequence[float]
    ) -> Verdict:
        best = likeliest(logits)
        if draft is None:
            return _plain(best, seen)
        if draft.parents is not None:
            return agreed(*read(draft.ids, draft.parents, best, *seen))
        drafted, fallback, *rest = read(draft.ids, best, _fitted(draft), *seen)
        accept = [float(a == b) for a, b in zip(drafted, fallback, strict=False)]
        return _verdict(drafted, accept, fallback, *rest)

    def _sampled(
        self, logits: Tensor, draft: TorchDraft | None, seen: Seen, draws: Sequence[float]
    ) -> Verdict:
        p = maths.warp(xp, maths.softmax(xp, logits.float()), self._sampling)
        uniforms = upload(draws, torch.float32, self._llama.device)
        if draft is None:
            return _plain(maths.draw(xp, p, uniforms), seen)
        if draft.parents is not None:
            scores = maths.judge_tree(xp, p, draft.ids, draft.parents, uniforms)
            return judged(*read(draft.ids, draft.parents, *scores, *seen))
        q = maths.point_mass(xp, draft.ids, p[:-1]) if draft.q is None else draft.q
        accept, fallback = maths.judge(xp, p, q, draft.ids, uniforms)
        return _verdict(*read(draft.ids, accept, fallback, _fitted(draft), *seen))


def _fitted(draft: TorchDraft) -> Tensor:
    """The weights [R] that the drafter fitted for this draft, or none."""
    return draft.evidence.weights if draft.evidence else draft.ids[:0]


def _plain(fallback: Tensor, seen: Seen) -> Verdict:
    """The verdict where nothing was drafted."""
    if not seen:
        return Verdict([], [], [], fallback.tolist())
    token, shares = read(fallback, *seen)
    return Verdict([], [], [], [*map(int, token)], seen=shares)


def _verdict(
    drafted: list[float], accept: list[float], fallback: list[float], *rest: list[float]
) -> Verdict:
    """A chain's verdict; `rest` are the weights and, where it was watched, what was seen."""
    parents = list(range(-1, len(drafted) - 1))
    return Verdict([*map(int, drafted)], parents, accept, [*map(int, fallback)], *rest)
