"""Runs transformers' `generate`."""

from pathlib import Path
from typing import Any

import torch

from mmspec.checkpoints.config import read_config
from mmspec.ground.errors import UsageError
from mmspec_bench.compare.script_io import Clock, Program, Question, Task, text_of
from mmspec_torch.device.devices import find_device, find_dtype, require_ieee_float32


def load_transformers(task: Task) -> Program:
    """Load transformers, with the draft as its assistant model. Options: `draft_tokens`, `lookup`.

    draft_tokens: tokens per round, by default the library's own schedule. lookup: tokens that
    prompt lookup proposes.
    """
    import transformers

    require_ieee_float32()
    device, sees = find_device(task.device), read_config(Path(task.model)).vision is not None
    reader: Any = transformers.AutoProcessor if sees else transformers.AutoTokenizer
    processor = reader.from_pretrained(task.model, local_files_only=True)
    if not processor.chat_template:
        raise UsageError(f"transformers cannot ask {task.model}: it has no chat template")
    model = _network(task.model, task.dtype, device)
    options = _speculation(task, device) | {"max_new_tokens": task.max_tokens}

    @torch.inference_mode()
    def answer(question: Question, clock: Clock) -> tuple[list[int], int]:
        inputs = processor.apply_chat_template(
            [{"role": "user", "content": question if sees else text_of(question)}],
            add_generation_prompt=True,
            tokenize=True,
            return_dict=True,
            return_tensors="pt",
        )
        inputs = inputs.to(device, *([model.dtype] if sees else []))
        prompt_length = inputs["input_ids"].shape[1]
        ids = model.generate(**inputs, **options, do_sample=False, streamer=_Streamer(clock))
        stop = model.generation_config.eos_token_id
        ends = {stop} if isinstance(stop, int) else set(stop)
        tokens = [token for token in ids[0, prompt_length:].tolist() if token not in ends]
        return tokens, len(clock.events)

    dtype, threads = str(model.dtype).removeprefix("torch."), torch.get_num_threads()
    facts = {"device": str(device), "dtype": dtype, "threads": threads}
    return Program(answer, facts, torch.cuda.max_memory_allocated)


def _network(directory: str, dtype: str, device: torch.device) -> Any:
    from transformers import AutoModelForCausalLM, AutoModelForImageTextToText

    config = read_config(Path(directory))
    if config.quantization is not None:
        raise UsageError(f"transformers cannot read {directory}: it is MLX-quantized")
    kind = find_dtype(dtype, device, config.dtype)
    network: Any = AutoModelForImageTextToText if config.vision else AutoModelForCausalLM
    model = network.from_pretrained(directory, dtype=kind, local_files_only=True)
    return model.to(device).eval()


def _speculation(task: Task, device: torch.device) -> dict[str, Any]:
    """The arguments of `generate` for each kind of drafting, as documented."""
    if lookup := task.options.get("lookup"):
        return {"prompt_lookup_num_tokens": lookup}
    if not task.draft:
        return {}
    assistant = _network(task.draft, task.dtype, device)
    if tokens := task.options.get("draft_tokens"):
        assistant.generation_config.num_assistant_tokens = tokens
        assistant.generation_config.num_assistant_tokens_schedule = "constant"
        assistant.generation_config.assistant_confidence_threshold = 0.0
    return {"assistant_model": assistant}


class _Streamer:
    """Streamer that receives the prompt, then the tokens of every forward."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._tokens = 0
        self._has_prompt = False

    def put(self, ids: torch.Tensor) -> None:
        """Record the time of tokens that have reached the host."""
        self._tokens += ids.numel() if self._has_prompt else 0
        self._has_prompt = True
        self._clock.record(self._tokens)

    def end(self) -> None:
        """Do nothing: no tokens are withheld."""
