"""The target's sequence: plain decoding, and verification of drafts.

Shape letters: n rows fed or drafted, H width.
"""

from collections.abc import Sequence

import mlx.core as mx

from mmspec.decoding.feeding import Columns
from mmspec.decoding.language import deepstack
from mmspec.decoding.target_sequence import TargetSequence
from mmspec_mlx.network.attention import Visible, additive, behind, causal
from mmspec_mlx.network.cache import Cache
from mmspec_mlx.network.decoder import LanguageModel


class MlxTarget(TargetSequence[mx.array]):
    """Implements `mmspec.decoding.contract.Target` and, for heads, `HiddenStates`."""

    _cache: Cache
    _language: LanguageModel

    def _forward(self, x: mx.array, columns: Columns) -> mx.array:
        start, end = columns.first, columns.first + len(x)
        visible: Visible
        extras: Sequence[mx.array] = ()
        if columns.multiple:
            visible = columns.places(self._framework.xp, self._framework.count, len(x))
            shift = self._row.shift(start)
            positions = mx.expand_dims(
                visible.row_places + shift if shift else visible.row_places, 0
            )
            rotation = self._language.rotary.at_positions(positions, end + max(shift, 0))
        elif columns.ancestry:
            visible = behind(start, additive(columns.ancestry.visible, x.dtype))
            first = self._row.position(start)
            positions = mx.expand_dims(first + columns.ancestry.depths, 0)
            rotation = self._language.rotary.at_positions(positions, first + columns.depth)
        else:
            visible = causal(start, len(x), x.dtype)
            rotation = self._language.rotary.along([self._row], start, end)
            extras = deepstack(self._language, [self._row], start, end)
        inputs = mx.expand_dims(x, 0), self._cache, start, rotation, visible, extras
        return self._language.feed(*inputs, self._captured_layers)[0]
