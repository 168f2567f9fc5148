"""The towers of all families on MLX, by config.json's `model_type`."""

from collections.abc import Callable
from typing import Any

from mmspec.checkpoints.config import ModelConfig
from mmspec.families.known import from_package
from mmspec.ground.errors import BackendError
from mmspec_mlx.device.weights import Weights
from mmspec_mlx.network.llava import Llava
from mmspec_mlx.network.qwen2_5_vl import Qwen25VL
from mmspec_mlx.network.qwen3_vl import Qwen3VL
from mmspec_mlx.network.vision import Vision

GROUP = "mmspec_mlx.families"
"""Entry-point group for towers from other packages; see docs/extending.md."""

Build = Callable[[Weights, Any], Vision]
"""Function from a checkpoint's tensors and the family's vision config to tower and projector."""

TOWERS: dict[str, Build] = {"llava": Llava, "qwen2_5_vl": Qwen25VL, "qwen3_vl": Qwen3VL}
"""This project's towers by `model_type`."""


def build_vision(weights: Weights, config: ModelConfig) -> Vision | None:
    """Take tower and projector of a checkpoint; None for a text-only one.

    Raises BackendError for a family without a tower on MLX.
    """
    if config.vision is None:
        return None
    name = config.family.model_type
    build: Build | None = TOWERS.get(name) or from_package(GROUP, name)
    if build is None:
        raise BackendError(f"the mlx backend has no tower for {name}: use another backend")
    return build(weights, config.vision)
