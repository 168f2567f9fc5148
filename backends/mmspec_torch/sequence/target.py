"""The target's sequence: plain decoding, and verification of drafts.

Shape letters: k drafted tokens, V vocabulary, H width.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import array_api_compat.torch as xp
import torch
from torch import Tensor

from mmspec.decoding import formulas
from mmspec.decoding.acceptance import Verdict, verdict_of
from mmspec.decoding.adaptive_weights import Evidence
from mmspec.decoding.draft import Draft, HostDraft
from mmspec.decoding.noise import Noise
from mmspec.decoding.sampling import Sampling
from mmspec.seam import Float32, Segment
from mmspec_torch.device_io import read, upload
from mmspec_torch.graphs.pool import Statics
from mmspec_torch.graphs.target import ROWS, StaticTarget
from mmspec_torch.network.cache import CacheSpan
from mmspec_torch.network.llama import Step, chunks, tree_mask
from mmspec_torch.network.llava import Llava
from mmspec_torch.sequence.contents import Row, embed
from mmspec_torch.sequence.draft import TorchDraft
from mmspec_torch.sequence.hidden_states import HiddenStateCache
from mmspec_torch.sequence.sampling import keys as noise_keys
from mmspec_torch.sequence.sampling import sampler


class State(NamedTuple):
    """Valid columns of a target's row and cache; always replaced as a whole."""

    length: int = 0
    fed: int = 0
    """Number of tokens in the cache: all but the last, or all after a rewind into a prompt."""
    verified: Verdict | None = None
    """The verdict whose paths the next commit may accept."""


class TorchTarget:
    """Implements `mmspec.seam.Target` and, for heads, `HiddenStates`."""

    def __init__(self, llava: Llava, statics: Statics, sampling: Sampling) -> None:
        self._llava, self._llama = llava, llava.llama
        self._sampler = sampler(sampling, llava.llama.device)
        self._static = statics.target(self)
        self._cache = self._static.cache if self._static else llava.llama.new_cache(rows=1)
        self._row = Row()
        self._state = State()
        self._state_cache: HiddenStateCache | None = None

    @property
    def length(self) -> int:
        """Number of tokens in the sequence, including the last one, which is not fed yet."""
        return self._state.length

    @torch.inference_mode()
    def extend(self, segment: Segment) -> None:
        """Append a segment and feed all but its last token."""
        length, fed = self._state.length, self._state.fed
        self._row.append(length, segment, self._llava.projected)
        end = length + len(segment)
        self._prefill(fed, end - 1)
        self._state = State(end, max(fed, end - 1))

    def rewind(self, length: int) -> None:
        """Remove all tokens from `length` on."""
        if not 0 <= length <= self.length:
            raise ValueError(f"cannot rewind {self.length} tokens to {length}")
        self._state = State(length, min(self._state.fed, length))

    @torch.inference_mode()
    def verify(self, draft: Draft | None, noise: Noise) -> Verdict:
        """Run the target once over its last token and the draft; returns the verdict.  Blocks."""
        state = self._state = self._state._replace(verified=None)
        own = self._on_device(draft)
        paths = _paths(own)
        logits = self._feed(own, paths)
        best = self._sampler.tokens(logits, self._keys(own, paths, noise))
        verdict = _verdict(own, logits, best) if own else Verdict([], [], best.tolist())
        self._state = state._replace(verified=verdict)
        return verdict

    def commit(self, path: Sequence[int], token: int) -> None:
        """Append the nodes `path` of the last verified draft, then `token`."""
        length, verified = self._state.length, self._state.verified
        if verified is None:
            raise ValueError("nothing was verified just now that could be committed")
        tokens = verified.along(path)
        if list(path) != list(range(len(path))):
            self._state = self._state._replace(verified=None)
            self._cache.gather(length, [length + node for node in path])
            if self._state_cache:
                self._state_cache.gather(length, [length + node for node in path])
        self._row.extend(length, [*tokens, token])
        self._state = State(length + len(path) + 1, length + len(path))

    @torch.inference_mode()
    def logits(self) -> Float32:
        """Return the next-token logits [V] on the host.  Blocks."""
        host: Float32 = self._feed(None)[0].float().cpu().numpy()
        return host

    @torch.inference_mode()
    def hidden_states(self) -> "TorchTarget":
        """Store hidden states and embeddings from now on; feeds the columns in the cache again."""
        if self._state_cache is None:
            self._state_cache = HiddenStateCache(self._llama)
            self._prefill(0, self._state.fed)
        return self

    def states(self, start: int, stop: int) -> Tensor:
        """Return the hidden states [n, H] of fed columns.  Raises ValueError if none are stored."""
        return self._readable_states.states.read(start, stop)

    @torch.inference_mode()
    def embeddings(self, start: int, stop: int) -> Tensor:
        """Return the embeddings [n, H] of any columns.  Raises ValueError if none are stored."""
        fed = self.length - 1
        fed_rows = self._readable_states.embeddings.read(start, min(stop, fed))
        if stop <= fed:
            return fed_rows
        rest = embed(self._llama, self._row, max(start, fed), stop)
        return torch.cat((fed_rows, rest)) if len(fed_rows) else rest

    def embed(self, ids: Tensor) -> Tensor:
        """Return the embeddings [n, H] of drafted ids [n]."""
        return self._llama.embed(ids)

    def project(self, states: Tensor) -> Tensor:
        """Return the logits [n, V] of hidden states [n, H]."""
        return self._llama.project(states)

    @property
    def _readable_states(self) -> HiddenStateCache:
        if self._state_cache is None:
            raise ValueError("this target keeps no hidden states: call hidden_states() first")
        return self._state_cache

    def _on_device(self, draft: Draft | None) -> TorchDraft | None:
        """Return the draft, uploaded if it is on the host."""
        if isinstance(draft, HostDraft):
            return TorchDraft(upload(draft.tokens, torch.long, self._llama.device))
        if draft is not None and not isinstance(draft, TorchDraft):
            raise TypeError(f"a {type(draft).__name__} was not drafted by this backend")
        return draft

    def _keys(self, draft: TorchDraft | None, paths: Tensor | None, noise: Noise) -> Tensor:
        """Return the noise keys [n + 1, 2] of the tokens after the last and each drafted one."""
        keys = noise_keys(noise, 1 + (draft.depth if draft else 0), self._llama.device)
        return keys if paths is None else keys[paths.sum(dim=-1) - 1]

    def _prefill(self, start: int, end: int) -> None:
        if start >= end:
            return
        x = embed(self._llama, self._row, start, end)
        for at, stop in chunks(start, end):
            part = self._recorded(x[at - start : stop - start], at)
            outputs = self._llama.append(part, self._cache, at)
            if self._state_cache:
                self._states(outputs, at)

    def _feed(self, draft: TorchDraft | None, paths: Tensor | None = None) -> Tensor:
        """Return the logits [n + 1, V] after the last token and after each drafted one.

        paths: for a tree, the result of `formulas.ancestry`.
        """
        start = self.length - 1
        if start < 0:
            raise ValueError("an empty sequence has no next token: extend it first")
        if self._static and self._continues(draft, start):
            return self._fixed(self._static, draft, start)
        x = embed(self._llama, self._row, start, start + 1)
        if draft is not None:
            x = torch.cat((x, self._llama.embed(draft.ids)))
        x = self._recorded(x, start)
        if draft is None or paths is None:
            outputs = self._llama.append(x, self._cache, start)
        else:
            outputs = self._branch(x, start, paths, draft.levels)
        return self._llama.project(self._states(outputs, start))

    def _continues(self, draft: TorchDraft | None, start: int) -> bool:
        """Return whether the input is a text token at `start`, alone or with a short chain."""
        chain = draft is None or (draft.parents is None and draft.size < ROWS)
        return chain and not self._row.has_image(start, start + 1)

    def _fixed(self, static: StaticTarget, draft: TorchDraft | None, start: int) -> Tensor:
        """Return what `_feed` does, computed by the static form."""
        [token] = self._llama.known(self._row.tokens[start : start + 1])
        logits, states, embeddings = static.feed(token, draft.ids if draft else None, start)
        if self._state_cache:
            self._state_cache.embeddings.write(start, embeddings)
            self._state_cache.states.write(start, states)
        return logits

    def _branch(self, x: Tensor, start: int, paths: Tensor, levels: int) -> Tensor:
        """Feed the last token and a tree, whose nodes see their ancestors; returns [n + 1, H]."""
        angles = self._llama.rotary.after(start, paths.sum(dim=-1) - 1, levels)
        span = CacheSpan(self._cache, start, start + len(x))
        step = Step(angles, span, tree_mask(start, paths, x))
        return self._llama.forward(x, step)

    def _recorded(self, x: Tensor, start: int) -> Tensor:
        """Return x after storing it for a head: feeding overwrites it."""
        if self._state_cache:
            self._state_cache.embeddings.write(start, x)
        return x

    def _states(self, outputs: Tensor, start: int) -> Tensor:
        """Return the hidden states [n, H] of outputs at `start`, after storing them for a head."""
        states = self._llama.states(outputs)
        if self._state_cache:
            self._state_cache.states.write(start, states)
        return states


def _paths(draft: TorchDraft | None) -> Tensor | None:
    """Return which nodes [n + 1, n + 1] are on the path to each; None for a chain."""
    if draft is None or draft.parents is None:
        return None
    paths: Tensor = formulas.ancestry(xp, draft.parents, draft.levels)
    return paths


def _verdict(draft: TorchDraft, logits: Tensor, best: Tensor) -> Verdict:
    """Read the verdict on a draft from the target's logits [n + 1, V] and tokens [n + 1]."""
    branches = draft.branches
    evidence = Evidence(branches.q, logits[:-1].float()) if branches else None
    weights = branches.weights if branches else draft.ids[:0]
    parents = () if draft.parents is None else (draft.parents,)
    verdict = verdict_of(*read(draft.ids, best, weights, *parents))
    return replace(verdict, evidence=evidence)
