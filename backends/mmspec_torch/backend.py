"""The PyTorch backend: loads models and heads, and reports on devices and memory."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from mmspec.checkpoints.config import ModelConfig
from mmspec.checkpoints.loading_plan import plan
from mmspec.checkpoints.loading_progress import loading_progress
from mmspec.checkpoints.quantization import SCHEMES, read_scheme
from mmspec.checkpoints.stored_config import stored_config
from mmspec.decoding.contract import Head, Model
from mmspec.decoding.seeing_model import SeeingModel, Sequences
from mmspec.ground.errors import BackendError, UsageError
from mmspec.ground.process_memory import process_peak
from mmspec.ground.progress import Progress, silent
from mmspec.ground.threads import check_threads, default_threads
from mmspec_torch.device.cuda_graphs import CudaGraphs
from mmspec_torch.device.devices import devices, find_device, find_dtype, require_ieee_float32
from mmspec_torch.device.quantized import has_kernel
from mmspec_torch.device.weights import Weights, open_weights
from mmspec_torch.heads.load import load_head
from mmspec_torch.network.decoder import LanguageModel
from mmspec_torch.network.vision import TorchFeatures, TorchTowerParts
from mmspec_torch.sequence.branches import TorchBranches
from mmspec_torch.sequence.replayed import ReplayedSequences
from mmspec_torch.sequence.target import TorchTarget


class TorchModel(SeeingModel[Tensor]):
    """Implements `mmspec.decoding.contract.Model`."""

    features, sequences = TorchFeatures, Sequences(TorchTarget, TorchBranches)
    language: LanguageModel

    def __init__(self, weights: Weights, config: ModelConfig) -> None:
        device, scheme = weights.device, weights.scheme
        self.device, self.quantize = str(device), scheme.name if scheme else "none"
        super().__init__(config, LanguageModel(weights, config.text), TorchTowerParts(weights))
        if device.type == "cuda" and config.text.delta_net is None:  # graphs have no states
            self.sequences = ReplayedSequences(self.language, CudaGraphs(device))


@contextmanager
def _room_for(directory: Path, device: torch.device) -> Iterator[None]:
    """Make a BackendError of a checkpoint that does not fit."""
    try:
        yield
    except torch.OutOfMemoryError as error:
        raise BackendError(
            f"{directory} does not fit the memory of {device}: use `quantize=int4`, "
            "`device=cpu`, or a smaller `dtype`"
        ) from error


class TorchBackend:
    """Implements `mmspec.decoding.contract.Backend`."""

    name = "torch"
    _gpu: torch.device | None = None
    """The GPU that counters, waits and reports mean; None for the thread's own."""

    def load(
        self,
        directory: Path,
        *,
        device: str = "auto",
        dtype: str = "auto",
        quantize: str = "none",
        progress: Progress = silent,
    ) -> TorchModel:
        """Load a checkpoint; quantized weights are dequantized.

        dtype: 'auto' is bfloat16 if 4-bit weights have a kernel on the device.
        """
        place, scheme = find_device(device), read_scheme(quantize)
        if place.type == "cuda" and place.index is not None:
            self._gpu = place
            torch.cuda.set_device(place)  # of this thread, for engines that share the model
        config = stored_config(directory)
        kernel = scheme is not None and scheme.group and has_kernel(place)
        kind = find_dtype(dtype, place, "bfloat16" if kernel else config.dtype)
        sources = plan(directory, config)
        count = loading_progress(sources.values(), progress)
        if scheme and any(source.packing for source in sources.values()):
            raise UsageError(  # its weights would be rounded twice
                f"{directory} is quantized already: leave `quantize={quantize}` out, or give the "
                "checkpoint in floats that it was made from"
            )
        if kind == torch.float32:
            require_ieee_float32()
        with _room_for(directory, place):
            return TorchModel(open_weights(sources, place, kind, scheme, count), config)

    def load_head(self, directory: Path, model: Model) -> Head:
        """Load a head; a published pickle is read without executing any of its code."""
        if not isinstance(model, TorchModel):
            raise UsageError(f"a head on torch cannot draft for a {type(model).__name__}")
        with _room_for(directory, model.language.device):
            return load_head(directory, model.config, model.language)

    def synchronize(self) -> None:
        """Wait for the accelerator, if there is one."""
        if torch.accelerator.is_available():
            torch.accelerator.synchronize(self._gpu)

    def peak_memory(self) -> int:
        """Return the peak bytes allocated on the GPU, or the peak of the process without one."""
        return torch.cuda.max_memory_allocated(self._gpu) or process_peak()

    def reset_peak_memory(self) -> None:
        """Start a new measurement of the GPU's peak memory; a process's peak cannot be reset."""
        if torch.cuda.is_available():
            torch.cuda.reset_peak_memory_stats(self._gpu)

    def set_threads(self, count: int | None) -> None:
        """Compute with this many CPU threads in the whole process."""
        if count is not None:
            check_threads(count)
        torch.set_num_threads(count or default_threads(torch.get_num_threads()))

    def describe(self) -> dict[str, Any]:
        """Return versions, devices and threads, for reports."""
        return {
            "backend": self.name,
            "torch": torch.__version__,
            "devices": devices(),
            "cuda": torch.version.cuda,
            "gpu": torch.cuda.get_device_name(self._gpu) if torch.cuda.is_available() else None,
            "quantize": [scheme.name for scheme in SCHEMES],
            "threads": torch.get_num_threads(),
            "mkl": torch.backends.mkl.is_available(),  # type: ignore[no-untyped-call]
        }
