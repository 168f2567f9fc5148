"""The MLX backend: loads models and heads, and reports on devices and memory."""

import os
from importlib.metadata import version
from pathlib import Path
from typing import Any

import mlx.core as mx

from mmspec.checkpoints.config import ModelConfig
from mmspec.checkpoints.loading_plan import plan
from mmspec.checkpoints.loading_progress import loading_progress
from mmspec.checkpoints.safetensors_file import StoredTensor
from mmspec.checkpoints.stored_config import stored_config
from mmspec.decoding.contract import Head, Model
from mmspec.decoding.seeing_model import SeeingModel, Sequences
from mmspec.ground.errors import CheckpointError, UsageError
from mmspec.ground.progress import Progress, silent
from mmspec_mlx.device import blas
from mmspec_mlx.device.devices import (
    describe_memory,
    devices,
    find_device,
    find_dtype,
    limit_memory,
)
from mmspec_mlx.device.weights import Files, Weights
from mmspec_mlx.heads.load import load_head
from mmspec_mlx.network.decoder import LanguageModel
from mmspec_mlx.network.vision import MlxFeatures, MlxTowerParts
from mmspec_mlx.save_quantized import quantize
from mmspec_mlx.sequence.branches import MlxBranches
from mmspec_mlx.sequence.target import MlxTarget


class MlxModel(SeeingModel[mx.array]):
    """Implements `mmspec.decoding.contract.Model`."""

    features, sequences = MlxFeatures, Sequences(MlxTarget, MlxBranches)
    language: LanguageModel
    quantize = "none"

    def __init__(self, weights: Weights, config: ModelConfig, device: str) -> None:
        self.device = device
        super().__init__(config, LanguageModel(weights, config.text), MlxTowerParts(weights))


class MlxBackend:
    """Implements `mmspec.decoding.contract.Backend`."""

    name = "mlx"

    def load(
        self,
        directory: Path,
        *,
        device: str = "auto",
        dtype: str = "auto",
        quantize: str = "none",
        progress: Progress = silent,
    ) -> MlxModel:
        """Load a checkpoint; the device becomes MLX's default."""
        if quantize != "none":
            raise UsageError(
                f"`quantize={quantize}` is of the torch backend: on mlx write a quantized copy "
                f"with `mmspec models quantize {directory} DIR` and load that"
            )
        place = find_device(device)
        config = stored_config(directory)
        sources = plan(directory, config)
        kind = find_dtype(dtype, place, sources)
        mx.set_default_device(mx.Device(mx.gpu if place == "gpu" else mx.cpu))
        if place == "gpu":
            limit_memory()
        count, files = loading_progress(sources.values(), progress), Files()

        def read(entry: StoredTensor) -> mx.array:
            count(entry)
            return files(entry)

        weights = Weights(sources, kind, read)
        try:
            model = MlxModel(weights, config, place)
        except (RuntimeError, KeyError) as error:
            raise CheckpointError(f"{directory}: cannot load: {error}") from error
        if weights.remainder:
            raise CheckpointError(f"{directory}: {weights.remainder[0]} is used by no module")
        return model

    def load_head(self, directory: Path, model: Model) -> Head:
        """Load a head; a published pickle must be converted to safetensors first."""
        if not isinstance(model, MlxModel):
            raise UsageError(f"a head on MLX cannot draft for a {type(model).__name__}")
        return load_head(directory, model.config, model.language.dtype)

    def quantize(self, source: Path, destination: Path, *, bits: int, group_size: int) -> None:
        """Write a quantized copy that mlx-vlm and mlx-lm can also read."""
        quantize(source, destination, bits=bits, group_size=group_size)

    def synchronize(self) -> None:
        """Wait for everything enqueued on the default stream."""
        mx.synchronize()

    def peak_memory(self) -> int:
        """Return the peak bytes of MLX arrays since `reset_peak_memory`."""
        return mx.get_peak_memory()

    def reset_peak_memory(self) -> None:
        """Start a new measurement of peak memory."""
        mx.reset_peak_memory()

    def set_threads(self, count: int | None) -> None:
        """Compute matrix products on a CPU with this many threads of OpenBLAS."""
        blas.set_threads(count)

    def describe(self) -> dict[str, Any]:
        """Return MLX's version, devices, BLAS and memory limits, for reports."""
        report: dict[str, Any] = {"backend": self.name, "mlx": version("mlx"), "devices": devices()}
        place = "gpu" if mx.default_device() == mx.Device(mx.gpu) else "cpu"
        report |= {"device": place, "cores": os.cpu_count()}
        return report | blas.describe() | (describe_memory() if place == "gpu" else {})
