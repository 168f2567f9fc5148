"""PyTorch as a place to run models: CUDA, Apple's MPS, or a CPU."""

import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from mmspec.checkpoint import Source, plan
from mmspec.config import ModelConfig, read_config
from mmspec.errors import BackendError, UsageError
from mmspec.quantization import SCHEMES, read_scheme
from mmspec.sampling import GREEDY
from mmspec.seam import Head, Model, Segment
from mmspec_torch.device import available, find_device, find_dtype, require_ieee_float32
from mmspec_torch.heads.load import load_head
from mmspec_torch.llava import TorchModel
from mmspec_torch.quantized import has_kernel
from mmspec_torch.weights import meta_weights, open_weights


class TorchBackend:
    """Implements `mmspec.seam.Backend`."""

    name = "torch"

    def load(
        self,
        directory: Path,
        *,
        device: str = "auto",
        dtype: str = "auto",
        quantize: str = "none",
    ) -> TorchModel:
        """Load a checkpoint strictly; quantized weights are dequantized, floats may be quantized.

        dtype: 'auto' takes bfloat16 for 4 bits where that has a kernel.
        """
        place, scheme = find_device(device), read_scheme(quantize)
        config = read_config(directory)
        kernel = scheme is not None and scheme.group and has_kernel(place)
        kind = find_dtype(dtype, place, "bfloat16" if kernel else config.dtype)
        sources = plan(directory, config)
        if scheme:
            _require_floats(directory, sources, quantize)
        if kind == torch.float32:
            require_ieee_float32()
        try:
            return TorchModel(open_weights(sources, place, kind, scheme), config, place, kind)
        except torch.OutOfMemoryError as error:
            raise BackendError(
                f"{directory} does not fit the memory of {place}: use --quantize int4, --device "
                "cpu, or a smaller --dtype"
            ) from error

    def load_head(self, directory: Path, model: Model) -> Head:
        """Load a head strictly, a published one's pickle by weights-only loading."""
        if not isinstance(model, TorchModel):
            raise UsageError(f"a head on torch cannot draft for a {type(model).__name__}")
        return load_head(directory, model)

    def quantize(self, source: Path, destination: Path, *, bits: int, group_size: int) -> None:
        """Refuse: quantized checkpoints are MLX's format, which MLX writes."""
        raise BackendError(
            f"torch cannot write {destination}: quantize {source} to {bits} bits in groups of "
            f'{group_size} with the mlx backend (pip install "mmspec[mlx]")'
        )

    def synchronize(self) -> None:
        """Wait for the accelerator; a CPU is never behind."""
        if torch.accelerator.is_available():
            torch.accelerator.synchronize()

    def peak_memory(self) -> int:
        """Peak bytes on the GPU in use, else of the process."""
        return torch.cuda.max_memory_allocated() or _process_peak()

    def reset_peak_memory(self) -> None:
        """Start a new peak; a process's own cannot be."""
        if torch.cuda.is_available():
            torch.cuda.reset_peak_memory_stats()

    def copier(self, size: int, device: str) -> Callable[[], object]:
        """A copy between two buffers of random bytes."""
        source = torch.rand(size // 4, device=device)
        sink = torch.empty_like(source)
        return lambda: sink.copy_(source)

    def describe(self) -> dict[str, Any]:
        """Versions, devices and threads."""
        return {
            "backend": self.name,
            "torch": torch.__version__,
            "devices": available(),
            "cuda": torch.version.cuda,
            "gpu": torch.cuda.get_device_name() if torch.cuda.is_available() else None,
            "quantize": [scheme.word for scheme in SCHEMES],
            "threads": torch.get_num_threads(),
            "mkl": torch.backends.mkl.is_available(),  # type: ignore[no-untyped-call]
        }


def _require_floats(directory: Path, sources: Mapping[str, Source], quantize: str) -> None:
    """Raise UsageError for a checkpoint that is quantized: rounding twice is not what it says."""
    if any(source.packing for source in sources.values()):
        raise UsageError(
            f"{directory} is quantized already: leave --quantize {quantize} out, or give the "
            "checkpoint in floats that it was made from"
        )


def untaken_tensors(config: ModelConfig) -> list[str]:
    """Build and run a model without memory; return the manifest's tensors it leaves unused.

    Raises KeyError for a tensor that the modules need and the manifest lacks, RuntimeError for
    one of another shape.
    """
    weights = meta_weights(config)
    model = TorchModel(weights, config, torch.device("meta"), torch.float32)
    drafter = model.open_drafter(1, config.text.vocab_size, GREEDY)
    drafter.extend([_prompt(model, config)])
    drafter.draft(1, [1.0], [])
    return weights.left


def _prompt(model: TorchModel, config: ModelConfig) -> Segment:
    if config.vision is None or config.image_token_id is None:
        return Segment([0, 0])
    size = config.vision.image_size
    image = model.encode(np.zeros((config.vision.num_channels, size, size), np.float32))
    return Segment([config.image_token_id] * image.positions + [0], [image])


def _process_peak() -> int:
    import resource  # absent on Windows, where only CUDA's counter is supported

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
