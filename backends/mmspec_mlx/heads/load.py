"""Loads heads from checkpoint directories; the forwards of layers that read rows of context.

Shape letters as in `mmspec.drafters.heads.injected_layers`.
"""

from pathlib import Path
from typing import Any

import mlx.core as mx

from mmspec.checkpoints.config import ModelConfig
from mmspec.checkpoints.head_config import read_head_config, require_fit
from mmspec.checkpoints.head_manifest import plan_head, read_draft_ids
from mmspec.drafters.heads.backend_interface import Parts
from mmspec.drafters.heads.head import PredictiveHead
from mmspec.drafters.heads.injected_layers import InjectedLayers, Visible
from mmspec.ground.errors import CheckpointError
from mmspec_mlx.device.weights import Files, Weights
from mmspec_mlx.network.attention import additive
from mmspec_mlx.network.cache import Cache
from mmspec_mlx.network.decoder import Decoder, DecoderLayer
from mmspec_mlx.sequence.branches import MlxDraftTail


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


def load_head(directory: Path, target: ModelConfig, dtype: mx.Dtype) -> PredictiveHead[mx.array]:
    """Load a head that drafts for `target`, in its dtype.  Raises CheckpointError or UsageError."""
    config = read_head_config(directory)
    require_fit(config, target, directory)
    weights = Weights(plan_head(directory, config), dtype, Files())
    parts = Parts(weights, DecoderLayer, Decoder, MlxInjectedLayers, _open_tail)
    head = PredictiveHead(config, parts, target, read_draft_ids(directory, config))
    if weights.remainder:
        raise CheckpointError(f"a {config.kind} head does not use {weights.remainder[0]}")
    return head


def _open_tail(decoder: Decoder, cache: Cache, columns: int, position: int) -> MlxDraftTail:
    return MlxDraftTail(decoder, cache, None, columns, [position])
