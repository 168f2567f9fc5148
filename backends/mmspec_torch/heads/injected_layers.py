"""The forwards of decoder layers that read rows of context.  Letters as in the shared part."""

from typing import Any

import torch
from torch import Tensor

from mmspec.drafters.heads.injected_layers import InjectedLayers, Visible
from mmspec_torch.device.device_io import upload
from mmspec_torch.network.attention import Step, hiding, kernels
from mmspec_torch.network.cache import LayerCache


class TorchInjectedLayers(InjectedLayers[Tensor]):
    """Implements `mmspec.drafters.heads.injected_layers.InjectedLayers`."""

    def _write(self, layer: Any, rows: Tensor, rotate: Any, cache: Any) -> None:
        layer.self_attn.remember(rows, cache, rotate)

    def _mask(self, visible: Visible, like: Tensor) -> Tensor:
        return hiding(~upload(visible.tolist(), torch.bool, like.device), like.dtype)

    def _feed(
        self, layer: Any, x: Tensor, context: Tensor, rotate: Any, cache: Any, low: int, mask: Any
    ) -> Tensor:
        views = (part[:, :, low:] for part in (cache.keys, cache.values))
        step = Step(rotate, (), mask, context=context)
        with kernels(x, step):
            output: Tensor = layer(x, LayerCache(cache.write, *views), step)
        return output
