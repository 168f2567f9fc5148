"""Runs transformers' `generate`."""

from pathlib import Path
from typing import Any

import torch

from mmspec.checkpoints.config import read_config
from mmspec.ground.errors import UsageError
from mmspec_bench.compare.script_io import Clock, Program, Question, Task, text_of
from mmspec_torch.device.devices import find_device, find_dtype, require_ieee_float32


class Transformers(Program):
    """transformers, with the draft as its assistant model. Options: `draft_tokens` and `lookup`.

    draft_tokens: tokens per round, by default the library's own schedule. lookup: tokens that
    prompt lookup proposes.
    """

    def __init__(self, task: Task) -> None:
        import transformers

        require_ieee_float32()
        self._device = find_device(task.device)
        self._sees = read_config(Path(task.model)).vision is not None
        reader: Any = transformers.AutoProcessor if self._sees else transformers.AutoTokenizer
        self._processor = reader.from_pretrained(task.model, local_files_only=True)
        if not self._processor.chat_template:
            raise UsageError(f"transformers cannot ask {task.model}: it has no chat template")
        self._model = self._load(task.model, task.dtype)
        self._options = {"max_new_tokens": task.max_tokens} | self._speculation(task)
        dtype = str(self._model.dtype).removeprefix("torch.")
        threads = torch.get_num_threads()
        self.described = {"device": str(self._device), "dtype": dtype, "threads": threads}

    def _load(self, directory: str, dtype: str) -> Any:
        from transformers import AutoModelForCausalLM, AutoModelForImageTextToText

        config = read_config(Path(directory))
        if config.quantization is not None:
            raise UsageError(f"transformers cannot read {directory}: it is MLX-quantized")
        kind = find_dtype(dtype, self._device, config.dtype)
        network: Any = AutoModelForImageTextToText if config.vision else AutoModelForCausalLM
        loaded = network.from_pretrained(directory, dtype=kind, local_files_only=True)
        return loaded.to(self._device).eval()

    def _speculation(self, task: Task) -> dict[str, Any]:
        """The arguments of `generate` for each kind of drafting, as documented."""
        if lookup := task.options.get("lookup"):
            return {"prompt_lookup_num_tokens": lookup}
        if not task.draft:
            return {}
        assistant = self._load(task.draft, task.dtype)
        if tokens := task.options.get("draft_tokens"):
            assistant.generation_config.num_assistant_tokens = tokens
            assistant.generation_config.num_assistant_tokens_schedule = "constant"
            assistant.generation_config.assistant_confidence_threshold = 0.0
        return {"assistant_model": assistant}

    @torch.inference_mode()
    def answer(self, question: Question, clock: Clock) -> tuple[list[int], int]:
        """Answer with `generate`, on the inputs of the checkpoint's own processor."""
        parts = [_content(part) for part in question]
        inputs = self._processor.apply_chat_template(
            [{"role": "user", "content": parts if self._sees else text_of(question)}],
            add_generation_prompt=True,
            tokenize=True,
            return_dict=True,
            return_tensors="pt",
        )
        inputs = inputs.to(self._device, *([self._model.dtype] if self._sees else []))
        prompt_length = inputs["input_ids"].shape[1]
        streamer = _Streamer(clock)
        ids = self._model.generate(**inputs, **self._options, do_sample=False, streamer=streamer)
        stop = self._model.generation_config.eos_token_id
        ends = {stop} if isinstance(stop, int) else set(stop)
        tokens = [token for token in ids[0, prompt_length:].tolist() if token not in ends]
        return tokens, len(clock.events)

    def device_bytes(self) -> int:
        """Peak bytes by CUDA's counter; 0 without CUDA."""
        return torch.cuda.max_memory_allocated()


class _Streamer:
    """Streamer that receives the prompt, then the tokens of every forward."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._tokens = 0
        self._prompted = False

    def put(self, ids: torch.Tensor) -> None:
        """Record the time of tokens that have reached the host."""
        self._tokens += ids.numel() if self._prompted else 0
        self._prompted = True
        self._clock.known(self._tokens)

    def end(self) -> None:
        """Do nothing: no tokens are withheld."""


def _content(part: dict[str, str]) -> dict[str, str]:
    if "image" in part:
        return {"type": "image", "path": part["image"]}
    return {"type": "text", "text": part["text"]}
