"""Decoder layers whose attention reads rows of context besides their own.

Shape letters: n rows, B block rows, C columns that block rows see, H width.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from mmspec.decoding.contents import chunks
from mmspec.drafters.heads.backend_interface import Sight
from mmspec.ground.arrays import Positions
from mmspec_torch.device.device_io import upload
from mmspec_torch.network.attention import Step, hidden
from mmspec_torch.network.cache import LayerCache
from mmspec_torch.network.decoder import Decoder
from mmspec_torch.network.rotary import Angles


class InjectedLayers:
    """Implements `mmspec.drafters.heads.backend_interface.InjectedLayers`."""

    def __init__(self, decoder: Decoder) -> None:
        self._decoder = decoder
        self._cache = decoder.new_cache(rows=1)

    def remember(self, context: Tensor, start: int, positions: Positions) -> None:
        """Write context rows [n, H], at rotary positions [3, n], to columns `start` on."""
        for low, high in chunks(0, len(context)):
            angles = self._angles(positions[:, low:high])
            parts = self._cache.layers(start + low, start + high)
            for layer, memory in zip(self._decoder.layers, parts, strict=True):
                layer.self_attn.remember(context[low:high], memory, angles)

    def settle(self) -> None:
        """Do nothing: PyTorch is not lazy."""

    def block(
        self,
        x: Tensor,
        context: Tensor,
        start: int,
        positions: Positions,
        sights: Sequence[Sight],
    ) -> Tensor:
        """Return the outputs [B, H] of block rows x, which may be overwritten."""
        angles = self._angles(positions)
        masks = {id(sight.visible): self._mask(sight, x) for sight in sights}
        parts = self._cache.layers(start, start + len(context) + len(x))
        for layer, memory, sight in zip(self._decoder.layers, parts, sights, strict=True):
            views = (part[:, :, sight.first :] for part in (memory.keys, memory.values))
            step = Step(angles, (), masks[id(sight.visible)], context=context)
            x = layer(x, LayerCache(memory.write, *views), step)
        return x

    def _angles(self, positions: Positions) -> Angles:
        return self._decoder.rotary.planes(positions[None])

    def _mask(self, sight: Sight, like: Tensor) -> Tensor | None:
        if sight.visible is None:
            return None
        visible = upload(sight.visible.tolist(), torch.bool, like.device)
        return like.new_zeros(visible.shape).masked_fill_(~visible, hidden(like.dtype))
