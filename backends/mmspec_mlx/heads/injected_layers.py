"""The forwards of decoder layers that read rows of context.  Letters as in the shared part."""

from typing import Any

import mlx.core as mx

from mmspec.drafters.heads.injected_layers import InjectedLayers, Visible
from mmspec_mlx.network.attention import additive


class MlxInjectedLayers(InjectedLayers[mx.array]):
    """Implements `mmspec.drafters.heads.injected_layers.InjectedLayers`."""

    def _batch(self, rows: mx.array) -> mx.array:
        return mx.expand_dims(rows, 0)

    def _write(self, layer: Any, rows: mx.array, rotate: Any, cache: Any) -> None:
        layer.self_attn.remember(rows, rotate, cache)

    def _mask(self, visible: Visible, like: mx.array) -> mx.array:
        return additive(mx.array(visible), like.dtype)

    def _feed(
        self,
        layer: Any,
        x: mx.array,
        context: mx.array,
        rotate: Any,
        cache: Any,
        low: int,
        mask: Any,
    ) -> mx.array:
        output: mx.array = layer(x, rotate, cache._replace(first=low), mask, context)
        self._decoder.kernels.ahead(output)
        return output
