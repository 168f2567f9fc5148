"""transformers' own `generate` on the same checkpoint, to measure against."""

from collections.abc import Sequence
from pathlib import Path
from time import perf_counter
from typing import Any

import torch

from mmspec.config import read_config
from mmspec.errors import UsageError
from mmspec.seam import Float32
from mmspec_torch.device import find_device, find_dtype, require_ieee_float32


class TransformersGenerate:
    """Implements `mmspec.bench.arms.Baseline`."""

    def __init__(self, directory: Path, *, device: str = "auto", dtype: str = "auto") -> None:
        """Load a plain checkpoint; raises UsageError for packed weights, which it cannot read."""
        config = read_config(directory)
        if config.quantization is not None:
            raise UsageError(f"transformers cannot read {directory}: its weights are MLX-quantized")
        self._device = find_device(device)
        kind = find_dtype(dtype, self._device, config.dtype)
        require_ieee_float32()
        loaded: Any = _class(config.kind).from_pretrained(
            directory, dtype=kind, local_files_only=True
        )
        self._model = loaded.to(self._device).eval()

    @torch.inference_mode()
    def answer(
        self, tokens: Sequence[int], images: Float32, max_tokens: int, stop: Sequence[int]
    ) -> tuple[list[int], list[float]]:
        """Greedy tokens, and the clock when each was known."""
        clock = _Clock(self._device)
        given: dict[str, Any] = {"input_ids": torch.tensor([list(tokens)], device=self._device)}
        given["attention_mask"] = torch.ones_like(given["input_ids"])
        if len(images):
            given["pixel_values"] = torch.tensor(images).to(self._device, self._model.dtype)
        said = self._model.generate(
            **given,
            do_sample=False,
            max_new_tokens=max_tokens,
            eos_token_id=list(stop),
            pad_token_id=min(stop),
            stopping_criteria=[clock],
        )
        return said[0, len(tokens) :].tolist(), clock.times


class _Clock:
    """Called by `generate` after every token; stops nothing."""

    def __init__(self, device: torch.device) -> None:
        self.times: list[float] = []
        self._go_on = torch.zeros(1, dtype=torch.bool, device=device)

    def __call__(self, *_: object, **__: object) -> torch.Tensor:
        self.times.append(perf_counter())
        return self._go_on


def _class(kind: str) -> Any:
    from transformers import LlamaForCausalLM, LlavaForConditionalGeneration

    return LlavaForConditionalGeneration if kind == "llava" else LlamaForCausalLM
