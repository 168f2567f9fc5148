"""The target's sequence: plain decoding, and verification of drafts.

Shape letters: n rows fed or drafted, H width.
"""

import array_api_compat.torch as xp
import torch.nn.functional as F
from torch import Tensor

from mmspec.decoding.block_attention import whole_blocks
from mmspec.decoding.feeding import Columns
from mmspec.decoding.language import deepstack
from mmspec.decoding.target_sequence import TargetSequence
from mmspec_torch.network.attention import Step, hiding
from mmspec_torch.network.cache import Cache
from mmspec_torch.network.decoder import LanguageModel


class TorchTarget(TargetSequence[Tensor]):
    """Implements `mmspec.decoding.contract.Target` and, for heads, `HiddenStates`."""

    _cache: Cache
    _language: LanguageModel

    def _forward(self, x: Tensor, columns: Columns) -> Tensor:
        language, row, layers = self._language, self._row, self._captured_layers
        start, end = columns.first, columns.first + len(x)
        if columns.multiple:
            places = columns.places(xp, self._framework.count, len(x))
            angles = language.rotary.after(row.shift(start), places.row_places, end)
            memory = self._cache.layers(start, end, whole_blocks(end))
            return language.forward(x, Step(angles, memory, places=places, captured_layers=layers))
        if columns.ancestry:
            visible, depths = columns.ancestry
            angles = language.rotary.after(row.position(start), depths, columns.depth)
            memory = self._cache.layers(start, end)
            mask = F.pad(hiding(~visible, x.dtype), (start, 0))  # all before a tree is visible
            return language.forward(x, Step(angles, memory, mask, captured_layers=layers))
        extras = [x[0] for x in deepstack(language, [row], start, end)]
        angles = language.rotary.along(row, start, end)
        inputs = x, self._cache, start, angles
        return language.follow(*inputs, deepstack=extras, captured_layers=layers)
