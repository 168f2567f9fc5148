"""Runs mlx-lm, or mlx-vlm in its own environment."""

from pathlib import Path
from typing import Any

from mmspec.checkpoints.config import read_config
from mmspec.ground.errors import UsageError
from mmspec_bench.compare.script_io import Clock, Program, Question, Task, images_of, text_of
from mmspec_mlx.device import blas  # before mlx.core, which binds its matrix products on import


class MlxProgram(Program):
    """Another MLX project with this project's device, precision and BLAS."""

    def __init__(self, task: Task) -> None:
        import mlx.core as mx

        if task.device != "auto":
            mx.set_default_device(mx.Device(mx.gpu if task.device == "gpu" else mx.cpu))
        self._on_gpu = mx.default_device().type == mx.DeviceType.gpu
        self._options: dict[str, Any] = {"max_tokens": task.max_tokens}

    def with_dtype(self, model: Any, dtype: str) -> Any:
        """The model with floats of `dtype`; 'auto' is float32 on a CPU, else as stored."""
        import mlx.core as mx
        from mlx.utils import tree_flatten

        kind = "float32" if dtype == "auto" and not self._on_gpu else dtype
        if kind != "auto":
            model.set_dtype(getattr(mx, kind))
        mx.eval(model.parameters())
        values: Any = tree_flatten(model.parameters())
        kinds = {str(value.dtype).removeprefix("mlx.core.") for _, value in values}
        device = "gpu" if self._on_gpu else "cpu"
        self.described = {"device": device, "dtype": ", ".join(sorted(kinds))} | blas.describe()
        return model

    def device_bytes(self) -> int:
        """Peak bytes by MLX's counter on a GPU; 0 on a CPU, where the process's peak is used."""
        import mlx.core as mx

        return mx.get_peak_memory() if self._on_gpu else 0


class MlxLm(MlxProgram):
    """mlx-lm on a model of text alone.  Option: `draft_tokens`, by default the library's."""

    def __init__(self, task: Task) -> None:
        from mlx_lm import utils

        if read_config(Path(task.model)).vision:
            raise UsageError("mlx-lm loads models of text alone: mlx-vlm answers for this one")
        super().__init__(task)
        loader: Any = utils
        self._tokenizer = loader.load_tokenizer(Path(task.model))
        self._model = self.with_dtype(loader.load_model(Path(task.model))[0], task.dtype)
        if task.draft:
            draft, _ = loader.load_model(Path(task.draft))
            self._options["draft_model"] = self.with_dtype(draft, task.dtype)
        if tokens := task.options.get("draft_tokens"):
            self._options["num_draft_tokens"] = tokens

    def answer(self, question: Question, clock: Clock) -> tuple[list[int], int]:
        """Answer with `stream_generate`; raises UsageError for an image."""
        from mlx_lm import stream_generate

        if images_of(question):
            raise UsageError("mlx-lm loads language models and sees no images")
        message = {"role": "user", "content": text_of(question)}
        prompt = self._tokenizer.apply_chat_template(
            [message], add_generation_prompt=True, tokenize=False
        )
        tokens, rounds = [], 0
        for step in stream_generate(self._model, self._tokenizer, prompt, **self._options):
            clock.known(step.generation_tokens)
            tokens.append(step.token)
            rounds += not step.from_draft
        ends = self._tokenizer.eos_token_ids
        return [token for token in tokens if token not in ends], rounds


class MlxVlm(MlxProgram):
    """mlx-vlm, for images and text."""

    def __init__(self, task: Task) -> None:
        from mlx_vlm import load

        super().__init__(task)
        self._model, self._processor = load(task.model)
        self.with_dtype(self._model, task.dtype)
        self._options["temperature"] = 0.0

    def answer(self, question: Question, clock: Clock) -> tuple[list[int], int]:
        """Answer a question with mlx-vlm's `stream_generate`."""
        from mlx_vlm import stream_generate
        from mlx_vlm.prompt_utils import apply_chat_template

        model, processor, images = self._model, self._processor, images_of(question)
        prompt = apply_chat_template(
            processor, model.config, text_of(question), num_images=len(images)
        )
        tokens: list[int] = []
        for step in stream_generate(
            model, processor, prompt, image=images or None, **self._options
        ):
            clock.known(step.generation_tokens)
            tokens[step.generation_tokens - 1 :] = [step.token]  # the last step may repeat one
        end = processor.tokenizer.eos_token_id
        return [token for token in tokens if token != end], len(clock.events)
