"""The target's sequence: plain decoding, and verification of drafts.

Shape letters: n rows fed or drafted, V vocabulary, H width.
"""

import torch
from torch import Tensor

from mmspec.decoding.draft import Ancestry, DeviceDraft
from mmspec.decoding.exact_rows import ExactRows
from mmspec.decoding.sampling import Sampling
from mmspec.decoding.target_sequence import TargetSequence
from mmspec_torch.framework import framework
from mmspec_torch.graphs.pool import Statics
from mmspec_torch.graphs.target import ROWS, StaticTarget
from mmspec_torch.network.cache import BlockSpan, Cache, CacheSpan
from mmspec_torch.network.llama import Step, tree_mask
from mmspec_torch.network.llava import Llava
from mmspec_torch.sequence.contents import embed
from mmspec_torch.sequence.hidden_states import Rows


class TorchTarget(TargetSequence[Tensor]):
    """Implements `mmspec.seam.InspectableTarget` and, for heads, `HiddenStates`."""

    _cache: Cache

    def __init__(
        self, llava: Llava, statics: Statics, sampling: Sampling, exact: ExactRows | None
    ) -> None:
        self._llama = llama = llava.llama
        self._static = None if exact else statics.target(self)
        cache = self._static.cache if self._static else llama.new_cache(rows=1)
        super().__init__(framework(llama.device), cache, llava.projected, sampling, exact)

    def embed(self, ids: Tensor) -> Tensor:
        """Return the embeddings [n, H] of drafted ids [n]."""
        return self._llama.embed(ids)

    def project(self, states: Tensor) -> Tensor:
        """Return the logits [n, V] of hidden states [n, H]."""
        return self._llama.project(states)

    def _feed(self, draft: DeviceDraft[Tensor] | None, ancestry: Ancestry | None) -> Tensor:
        """Feed the last token and a draft, as CUDA graphs where that is possible."""
        start = self.length - 1
        text = start >= 0 and not self._row.has_image(start, start + 1)
        short_chain = draft is None or (ancestry is None and draft.size < ROWS)
        if self._static and text and short_chain:
            return self._replayed(self._static, draft, start)
        return super()._feed(draft, ancestry)

    def _replayed(
        self, static: StaticTarget, draft: DeviceDraft[Tensor] | None, start: int
    ) -> Tensor:
        [token] = self._row.ids(start, start + 1, self._llama.config.vocab_size)
        logits, states, embeddings = static.feed(token, draft.ids if draft else None, start)
        if self._stored:
            self._stored.embeddings.write(start, embeddings)
            self._stored.states.write(start, states)
        return logits

    def _embed_columns(self, start: int, stop: int) -> Tensor:
        return embed(self._llama, self._row, start, stop)

    def _append(self, x: Tensor, start: int) -> Tensor:
        return self._llama.append(x, self._cache, start)

    def _branch(self, x: Tensor, start: int, ancestry: Ancestry, levels: int) -> Tensor:
        angles = self._llama.rotary.after(start, ancestry.depths, levels)
        span = CacheSpan(self._cache, start, start + len(x))
        return self._llama.forward(x, Step(angles, span, tree_mask(start, ancestry.visible, x)))

    def _by_blocks(
        self, exact: ExactRows, x: Tensor, first: int, root: int, ancestry: Ancestry | None
    ) -> Tensor:
        end = first + len(x)
        places = self._places(exact, first, end, root, ancestry)
        angles = self._llama.rotary.after(0, places.own, end)
        return self._llama.forward(
            x, Step(angles, BlockSpan(self._cache, first, end), places=places)
        )

    def _normalised(self, outputs: Tensor) -> Tensor:
        return self._llama.states(outputs)

    def _new_rows(self) -> Rows:
        width = self._llama.config.hidden_size
        return Rows(torch.empty(0, width, device=self._llama.device, dtype=self._llama.dtype))
