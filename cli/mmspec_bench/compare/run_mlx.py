"""Runs mlx-lm, or mlx-vlm in its own environment."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from mmspec.checkpoints.config import read_config
from mmspec.ground.errors import UsageError
from mmspec_bench.compare.script_io import Clock, Program, Question, Task, images_of, text_of
from mmspec_mlx.device import blas  # before mlx.core, which binds its matrix products on import
from mmspec_mlx.device.devices import find_device


def load_mlx_lm(task: Task) -> Program:
    """Load mlx-lm with a model of text alone.  Option: `draft_tokens`, by default the library's."""
    from mlx_lm import stream_generate, utils

    if read_config(Path(task.model)).vision:
        raise UsageError("mlx-lm loads models of text alone: mlx-vlm answers for this one")
    loader: Any = utils
    gpu_bytes = _choose_device(task.device)
    tokenizer = loader.load_tokenizer(Path(task.model))
    model, _ = loader.load_model(Path(task.model))
    facts = _set_dtype(model, task.dtype, on_gpu=bool(gpu_bytes))
    options: dict[str, Any] = {"max_tokens": task.max_tokens}
    if task.draft:
        options["draft_model"], _ = loader.load_model(Path(task.draft))
        _set_dtype(options["draft_model"], task.dtype, on_gpu=bool(gpu_bytes))
    if tokens := task.options.get("draft_tokens"):
        options["num_draft_tokens"] = tokens

    def answer(question: Question, clock: Clock) -> tuple[list[int], int]:
        if images_of(question):
            raise UsageError("mlx-lm loads language models and sees no images")
        chat = [{"role": "user", "content": text_of(question)}]
        prompt = tokenizer.apply_chat_template(chat, add_generation_prompt=True, tokenize=False)
        tokens, rounds = [], 0
        for step in stream_generate(model, tokenizer, prompt, **options):
            clock.record(step.generation_tokens)
            tokens.append(step.token)
            rounds += not step.from_draft
        ends = tokenizer.eos_token_ids
        return [token for token in tokens if token not in ends], rounds

    return Program(answer, facts, gpu_bytes)


def load_mlx_vlm(task: Task) -> Program:
    """Load mlx-vlm, for images and text."""
    from mlx_vlm import load, stream_generate
    from mlx_vlm.prompt_utils import apply_chat_template

    gpu_bytes = _choose_device(task.device)
    model, processor = load(task.model)
    facts = _set_dtype(model, task.dtype, on_gpu=bool(gpu_bytes))
    options = {"max_tokens": task.max_tokens, "temperature": 0.0}

    def answer(question: Question, clock: Clock) -> tuple[list[int], int]:
        images, text = images_of(question), text_of(question)
        prompt = apply_chat_template(processor, model.config, text, num_images=len(images))
        tokens: list[int] = []
        for step in stream_generate(model, processor, prompt, image=images or None, **options):
            clock.record(step.generation_tokens)
            tokens[step.generation_tokens - 1 :] = [step.token]  # the last step may repeat one
        end = processor.tokenizer.eos_token_id
        return [token for token in tokens if token != end], len(clock.events)

    return Program(answer, facts, gpu_bytes)


def _choose_device(device: str) -> Callable[[], int] | None:
    """Compute on a device, 'auto' for the fastest; returns a GPU's counter of peak bytes."""
    import mlx.core as mx

    mx.set_default_device(mx.Device(mx.gpu if find_device(device) == "gpu" else mx.cpu))
    return mx.get_peak_memory if mx.default_device().type == mx.DeviceType.gpu else None


def _set_dtype(model: Any, dtype: str, *, on_gpu: bool) -> dict[str, Any]:
    """Give the model floats of `dtype`; 'auto' is float32 on a CPU, else as stored.

    Returns what its speed depends on.
    """
    import mlx.core as mx
    from mlx.utils import tree_flatten

    kind = "float32" if dtype == "auto" and not on_gpu else dtype
    if kind != "auto":
        model.set_dtype(getattr(mx, kind))
    mx.eval(model.parameters())
    values: Any = tree_flatten(model.parameters())
    kinds = {str(value.dtype).removeprefix("mlx.core.") for _, value in values}
    device = "gpu" if on_gpu else "cpu"
    return {"device": device, "dtype": ", ".join(sorted(kinds))} | blas.describe()
