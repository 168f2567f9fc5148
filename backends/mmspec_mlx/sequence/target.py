"""The target's sequence: plain decoding, and verification of drafts.

Shape letters: n rows fed or drafted, V vocabulary, H width.
"""

import mlx.core as mx

from mmspec.decoding.draft import Ancestry
from mmspec.decoding.exact_rows import ExactRows
from mmspec.decoding.sampling import Sampling
from mmspec.decoding.target_sequence import TargetSequence
from mmspec_mlx.framework import framework
from mmspec_mlx.network.cache import Cache
from mmspec_mlx.network.llama import additive, behind
from mmspec_mlx.network.llava import Llava
from mmspec_mlx.sequence.contents import embed
from mmspec_mlx.sequence.hidden_states import Rows


class MlxTarget(TargetSequence[mx.array]):
    """Implements `mmspec.seam.InspectableTarget` and, for heads, `HiddenStates`."""

    _cache: Cache

    def __init__(self, llava: Llava, sampling: Sampling, exact: ExactRows | None) -> None:
        self._llama = llama = llava.llama
        cache = llama.new_cache(rows=1)
        super().__init__(framework(llama.kernels), cache, llava.projected, sampling, exact)

    def embed(self, ids: mx.array) -> mx.array:
        """Return the embeddings [n, H] of drafted ids [n]; starts computing the ids."""
        return self._llama.embed(ids)

    def project(self, states: mx.array) -> mx.array:
        """Return the logits [n, V] of hidden states [n, H]."""
        return self._llama.project(states)

    def _embed_columns(self, start: int, stop: int) -> mx.array:
        return embed(self._llama, self._row, start, stop)

    def _append(self, x: mx.array, start: int) -> mx.array:
        return self._llama.append(x, self._cache, start)

    def _branch(self, x: mx.array, start: int, ancestry: Ancestry, levels: int) -> mx.array:
        positions = mx.expand_dims(start + ancestry.depths, 0)
        turn = self._llama.rotary.each(positions, start + levels)
        mask = behind(start, additive(ancestry.visible, x.dtype))
        return self._llama.feed(mx.expand_dims(x, 0), self._cache, start, turn, mask)[0]

    def _by_blocks(
        self, exact: ExactRows, x: mx.array, first: int, root: int, ancestry: Ancestry | None
    ) -> mx.array:
        end = first + len(x)
        places = self._places(exact, first, end, root, ancestry)
        turn = self._llama.rotary.each(mx.expand_dims(places.own, 0), end)
        return self._llama.feed(mx.expand_dims(x, 0), self._cache, first, turn, places)[0]

    def _normalised(self, outputs: mx.array) -> mx.array:
        return self._llama.states(outputs)

    def _new_rows(self) -> Rows:
        return Rows(mx.zeros((0, self._llama.config.hidden_size), self._llama.dtype))
