"""Loads heads from checkpoint directories; the forwards of layers that read rows of context.

Shape letters as in `mmspec.drafters.heads.injected_layers`.
"""

from itertools import count
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from mmspec.checkpoints.config import ModelConfig
from mmspec.checkpoints.head_config import HeadConfig, read_head_config, require_fit
from mmspec.checkpoints.head_manifest import (
    VOCABULARY_MAPS,
    draft_ids,
    head_pickle,
    plan_head,
    read_draft_ids,
    require_tensors,
)
from mmspec.drafters.heads.backend_interface import Parts
from mmspec.drafters.heads.head import PredictiveHead
from mmspec.drafters.heads.injected_layers import InjectedLayers, Visible
from mmspec.ground.errors import CheckpointError
from mmspec_torch.device.device_io import upload
from mmspec_torch.device.tensor_files import read_state
from mmspec_torch.device.weights import Weights, open_weights, require_finite
from mmspec_torch.network.attention import Step, hiding, kernels
from mmspec_torch.network.cache import Cache, LayerCache
from mmspec_torch.network.decoder import Decoder, DecoderLayer
from mmspec_torch.sequence.branches import TorchDraftTail


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


def load_head(directory: Path, target: ModelConfig, like: Decoder) -> PredictiveHead[Tensor]:
    """Load a head that drafts for `target`, on the device and in the dtype of `like`.

    Raises CheckpointError or UsageError.
    """
    config = read_head_config(directory)
    require_fit(config, target, directory)
    weights, draft = _tensors(directory, config, like)
    parts = Parts(weights, DecoderLayer, Decoder, TorchInjectedLayers, _open_tail)
    head = PredictiveHead(config, parts, target, draft)
    if weights.remainder:
        raise CheckpointError(f"a {config.kind} head does not use {weights.remainder[0]}")
    return head


def _open_tail(decoder: Decoder, cache: Cache, columns: int, position: int) -> TorchDraftTail:
    angles = (decoder.rotary.run(at, at + 1) for at in count(position))
    return TorchDraftTail(decoder, cache, columns, angles)


def _tensors(
    directory: Path, config: HeadConfig, like: Decoder
) -> tuple[Weights, list[int] | None]:
    """The head's weights and the ids of the tokens that it can draft."""
    device, dtype = like.device, like.dtype
    pickle = head_pickle(directory)
    if pickle is None:
        weights = open_weights(plan_head(directory, config), device, dtype)
        return weights, read_draft_ids(directory, config)
    tensors = read_pickle(pickle, config)
    maps = {name: tensors.pop(name).numpy() for name in VOCABULARY_MAPS if name in tensors}

    def read(name: str) -> Tensor:
        return require_finite(tensors[name].to(dtype), name, pickle).to(device)

    return Weights(tensors, read, device, dtype), draft_ids(maps, config, pickle)


def read_pickle(file: Path, config: HeadConfig) -> dict[str, Tensor]:
    """Read the tensors of a published head, executing none of the pickle's code.

    Raises CheckpointError for a pickle that is damaged or holds anything but tensors.
    """
    tensors = read_state(file, mmap=True)
    for name, tensor in tensors.items():
        if not isinstance(tensor, Tensor):
            raise CheckpointError(f"{file} does not hold tensors alone: {name!r}")
    shapes = {str(name): tuple(tensor.shape) for name, tensor in tensors.items()}
    names = require_tensors(shapes, config, file)
    maps = () if config.draft_vocab_size is None else VOCABULARY_MAPS
    sources = names | {name: name for name in maps if name in tensors}
    return {name: tensors[source] for name, source in sources.items()}
