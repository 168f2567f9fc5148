"""The target's sequence: plain decoding, and verification of drafts.

Shape letters: n rows fed or drafted, V vocabulary, H width.
"""

import torch
from torch import Tensor

from mmspec.decoding.contents import Projection
from mmspec.decoding.draft import Ancestry
from mmspec.decoding.exact_rows import ExactRows
from mmspec.decoding.sampling import Sampling
from mmspec.decoding.target_sequence import TargetSequence
from mmspec_torch.device.framework import framework
from mmspec_torch.graphs.pool import Statics
from mmspec_torch.graphs.target import Tree
from mmspec_torch.network.cache import BlockSpan, Cache, CacheSpan
from mmspec_torch.network.decoder import LanguageModel, Step, tree_mask
from mmspec_torch.network.rotary import Angles
from mmspec_torch.sequence.contents import deepstack, embed
from mmspec_torch.sequence.hidden_states import Rows

CAPTURED_ROWS = 128
"""The most rows of a prompt that are fed as a graph: longer ones keep a GPU busy anyway."""


class TorchTarget(TargetSequence[Tensor]):
    """Implements `mmspec.decoding.inspection.InspectableTarget` and, for heads, `HiddenStates`."""

    _cache: Cache

    def __init__(
        self,
        language: LanguageModel,
        place: Projection[Tensor],
        statics: Statics,
        sampling: Sampling,
        exact: ExactRows | None,
    ) -> None:
        """place: returns the rows [N, W] of an image's features."""
        self._language = language
        self._static = statics.target(self)
        cache = self._static.cache if self._static else language.new_cache(rows=1)
        super().__init__(framework(language.device), cache, place, sampling, exact)

    def embed(self, ids: Tensor) -> Tensor:
        """Return the embeddings [n, H] of drafted ids [n]."""
        return self._language.embed(ids)

    def project(self, states: Tensor) -> Tensor:
        """Return the logits [n, V] of hidden states [n, H]."""
        return self._language.project(states)

    def _embed_columns(self, start: int, stop: int) -> Tensor:
        return embed(self._language, self._row, start, stop)

    def _append(self, x: Tensor, start: int) -> Tensor:
        end = start + len(x)
        added = deepstack(self._language, [self._row], start, end)
        text = self._row.counts_up(start, end) and not added
        if self._static and text and not self._exact and len(x) <= CAPTURED_ROWS:
            return self._static.feed(x, start, self._row.shift(start), captured=self._captured)
        span, angles = CacheSpan(self._cache, start, end), self._angles(start, end)
        return self._language.follow(x, span, angles, deepstack=added, captured=self._captured)

    def _angles(self, start: int, end: int) -> Angles:
        """Return the angles of columns, of which those of a draft count up."""
        rotary, first = self._language.rotary, self._row.position(start)
        if self._row.counts_up(start, end):
            return rotary.run(first, first + end - start)
        cos, sin = rotary.planes(self._row.positions(start, end)[None])
        return cos[0], sin[0]

    def _branch(self, x: Tensor, start: int, ancestry: Ancestry, levels: int) -> Tensor:
        tree, first = Tree(start, ancestry.visible), self._row.position(start)
        if self._static:
            return self._static.feed(x, start, first - start, tree, captured=self._captured)
        angles = self._language.rotary.after(first, ancestry.depths, levels)
        span = CacheSpan(self._cache, start, start + len(x))
        mask = tree_mask(start, ancestry.visible, x)
        return self._language.forward(x, Step(angles, span, mask, captured=self._captured))

    def _by_blocks(
        self, exact: ExactRows, x: Tensor, first: int, root: int, ancestry: Ancestry | None
    ) -> Tensor:
        end, tree = first + len(x), Tree(root, ancestry.visible) if ancestry else None
        shift = self._row.shift(first)
        if self._static:
            return self._static.feed(x, first, shift, tree, exact.multiple, self._captured)
        places = self._places(exact, first, end, root, ancestry)
        angles = self._language.rotary.after(shift, places.own, end)
        span = BlockSpan(self._cache, first, end)
        return self._language.forward(x, Step(angles, span, places=places, captured=self._captured))

    def _normalised(self, outputs: Tensor) -> Tensor:
        return self._language.states(outputs)

    def _parted(self, outputs: Tensor) -> tuple[Tensor, Tensor]:
        width = self._language.config.hidden_size
        # Contiguous, so that the norm computes the bits that it does without captured layers.
        return outputs[:, :width].contiguous(), outputs[:, width:]

    def _new_rows(self, count: int) -> Rows:
        width = count * self._language.config.hidden_size
        return Rows(torch.empty(0, width, device=self._language.device, dtype=self._language.dtype))
