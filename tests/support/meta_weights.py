"""Weights of a whole model for PyTorch that have shapes and take no memory."""

import torch

from mmspec.checkpoints.config import ModelConfig
from mmspec.checkpoints.manifest import manifest
from mmspec.checkpoints.quantization import Scheme
from mmspec_torch.device.weights import Weights


def meta_weights(
    config: ModelConfig, dtype: torch.dtype = torch.float32, scheme: Scheme | None = None
) -> Weights:
    """All tensors of the manifest, on the meta device."""
    shapes = manifest(config)
    meta = torch.device("meta")

    def read(name: str) -> torch.Tensor:
        return torch.empty(shapes[name], dtype=dtype, device=meta)

    return Weights(shapes, read, meta, dtype, scheme)
