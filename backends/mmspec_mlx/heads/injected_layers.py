"""Decoder layers whose attention reads rows of context besides their own.

Shape letters: n rows, B block rows, C columns that block rows see, H width.
"""

from collections.abc import Sequence

import mlx.core as mx

from mmspec.decoding.contents import chunks
from mmspec.drafters.heads.backend_interface import Sight
from mmspec.ground.arrays import Positions
from mmspec_mlx.network.attention import additive
from mmspec_mlx.network.decoder import Decoder


class InjectedLayers:
    """Implements `mmspec.drafters.heads.backend_interface.InjectedLayers`."""

    def __init__(self, decoder: Decoder) -> None:
        self._decoder = decoder
        self._cache = decoder.new_cache(rows=1)

    def remember(self, context: mx.array, start: int, positions: Positions) -> None:
        """Write context rows [n, H], at rotary positions [3, n], to columns `start` on."""
        for low, high in chunks(0, len(context)):
            turn = self._decoder.rotary.planes(positions[None, :, low:high])
            rows = mx.expand_dims(context[low:high], 0)
            parts = self._cache.layers(start + low, start + high)
            for layer, memory in zip(self._decoder.layers, parts, strict=True):
                layer.self_attn.remember(rows, turn, memory)

    def settle(self) -> None:
        """Wait until the cache is computed."""
        self._cache.settle()

    def block(
        self,
        x: mx.array,
        context: mx.array,
        start: int,
        positions: Positions,
        sights: Sequence[Sight],
    ) -> mx.array:
        """Return the outputs [B, H] of block rows x."""
        turn = self._decoder.rotary.planes(positions[None])
        masks = {id(sight.visible): self._mask(sight) for sight in sights}
        parts = self._cache.layers(start, start + len(context) + len(x))
        x, context = mx.expand_dims(x, 0), mx.expand_dims(context, 0)
        for layer, memory, sight in zip(self._decoder.layers, parts, sights, strict=True):
            seen = memory._replace(first=sight.first)
            x = layer(x, turn, seen, masks[id(sight.visible)], context)
            self._decoder.kernels.ahead(x)
        return x[0]

    def _mask(self, sight: Sight) -> mx.array | None:
        if sight.visible is None:
            return None
        return additive(mx.array(sight.visible), self._decoder.dtype)
