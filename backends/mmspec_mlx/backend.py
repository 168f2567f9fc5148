"""MLX as a place to run models."""

import os
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import mlx.core as mx

from mmspec.checkpoint import Source, plan
from mmspec.config import ModelConfig, read_config
from mmspec.errors import CheckpointError, UsageError, choice
from mmspec.seam import Head, Model
from mmspec_mlx import blas, memory
from mmspec_mlx.heads.load import load_head
from mmspec_mlx.llava import MlxModel
from mmspec_mlx.quantize import quantize
from mmspec_mlx.weights import Files, Weights, unread

_DTYPES = {"float32": mx.float32, "bfloat16": mx.bfloat16, "float16": mx.float16}
_STORED = {"F32": "float32", "BF16": "bfloat16", "F16": "float16"}


class MlxBackend:
    """See `mmspec.seam.Backend`."""

    name = "mlx"

    def load(
        self,
        directory: Path,
        *,
        device: str = "auto",
        dtype: str = "auto",
        quantize: str = "none",
    ) -> MlxModel:
        """Load a checkpoint strictly; the device becomes MLX's default.

        Raises CheckpointError for files that do not fit and UsageError for choices that cannot
        be had.
        """
        if quantize != "none":
            raise UsageError(
                f"--quantize {quantize} is of the torch backend: on mlx write a quantized copy "
                f"with `mmspec models quantize {directory} DIR` and load that"
            )
        place = _device(device)
        config = read_config(directory)
        sources = plan(directory, config)
        kind = _dtype(dtype, place, sources)
        mx.set_default_device(_stream(place))
        if place == "gpu":
            memory.limit()
        weights = Weights(sources, kind, Files(), mx.eval)
        return _build(weights, config, place, directory)

    def load_head(self, directory: Path, model: Model) -> Head:
        """Load a head strictly; a published one's pickle has to be converted first."""
        if not isinstance(model, MlxModel):
            raise UsageError(f"a head on MLX cannot draft for a {type(model).__name__}")
        return load_head(directory, model)

    def quantize(self, source: Path, destination: Path, *, bits: int, group_size: int) -> None:
        """Write a quantized copy that mlx-vlm and mlx-lm read too; see `quantize`."""
        quantize(source, destination, bits=bits, group_size=group_size)

    def synchronize(self) -> None:
        """Wait for everything enqueued on the default stream."""
        mx.synchronize()

    def peak_memory(self) -> int:
        """Peak bytes of MLX arrays since `reset_peak_memory`."""
        return mx.get_peak_memory()

    def reset_peak_memory(self) -> None:
        """Start a new peak."""
        mx.reset_peak_memory()

    def copier(self, size: int, device: str) -> Callable[[], object]:
        """A sum with zero, which moves what a copy does: MLX copies nothing that it can share."""
        source = mx.random.uniform(shape=(size // 4,), stream=_stream(device))
        mx.eval(source)
        return lambda: mx.eval(mx.add(source, 0.0, stream=_stream(device)))

    def describe(self) -> dict[str, Any]:
        """Version, devices and BLAS, for reports."""
        found: dict[str, Any] = {"name": self.name, "mlx": version("mlx"), "devices": devices()}
        place = "gpu" if mx.default_device() == mx.Device(mx.gpu) else "cpu"
        found |= {"device": place, "cores": os.cpu_count()}
        return found | blas.describe() | memory.describe()


def devices() -> list[str]:
    """Devices that models can run on, the best first."""
    return ["gpu", "cpu"] if mx.is_available(mx.Device(mx.gpu)) else ["cpu"]


def check(sources: dict[str, Source], config: ModelConfig) -> None:
    """Build a model from a plan and trace it, without reading a tensor or taking memory for one.

    Raises CheckpointError if the modules do not use exactly the plan's tensors, in their shapes.
    """
    directory = Path("the plan")
    model = _build(Weights(sources, mx.float16, unread, lambda *_: None), config, "cpu", directory)
    try:
        model.trace()
    except ValueError as error:
        raise CheckpointError(f"{directory}: cannot run: {error}") from error


def _build(weights: Weights, config: ModelConfig, device: str, directory: Path) -> MlxModel:
    try:
        model = MlxModel(weights, config, device)
    except (RuntimeError, KeyError) as error:
        raise CheckpointError(f"{directory}: cannot load: {error}") from error
    if weights.unused():
        raise CheckpointError(f"{directory}: {weights.unused()[0]} is used by no module")
    return model


def _stream(device: str) -> mx.Device:
    return mx.Device(mx.gpu if device == "gpu" else mx.cpu)


def _device(wanted: str) -> str:
    if wanted == "auto":
        return devices()[0]
    if wanted not in devices():
        raise choice("MLX device", wanted, ["auto", *devices()])
    return wanted


def _dtype(wanted: str, device: str, sources: dict[str, Source]) -> mx.Dtype:
    """Choose float32 on a CPU, else what the decoder's last norm, never quantized, is stored in."""
    if wanted == "auto":
        stored = sources["language_model.norm.weight"].stored.dtype
        wanted = "float32" if device == "cpu" else _STORED[stored]
    if wanted not in _DTYPES:
        raise choice("dtype", wanted, ["auto", *_DTYPES])
    return _DTYPES[wanted]
