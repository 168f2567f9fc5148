"""Runs mlx-lm or mlx-vlm: `python -m mmspec_bench.compare.run_mlx TASK`.

mlx-vlm runs in its own environment.  Option `program`: 'mlx-lm' or 'mlx-vlm'.
"""

from collections.abc import Iterator
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from mmspec.checkpoints.config import read_config
from mmspec.ground.errors import UsageError
from mmspec_bench.compare.script_io import Clock, Program, Question, Task, images_of, main, text_of
from mmspec_mlx.device import blas  # before mlx.core, which binds its matrix products on import

PREFIXES = {
    "model.language_model.": "model.",
    "language_model.model.": "model.",
    "language_model.lm_head.": "lm_head.",
    "lm_head.": "lm_head.",
}
"""Prefixes of the Llama's tensors in LLaVA checkpoints, and mlx-lm's prefixes for them."""


class MlxProgram(Program):
    """Another MLX project with this project's device, precision and BLAS."""

    def __init__(self, task: Task) -> None:
        import mlx.core as mx

        if task.device != "auto":
            mx.set_default_device(mx.Device(mx.gpu if task.device == "gpu" else mx.cpu))
        self._on_gpu = mx.default_device().type == mx.DeviceType.gpu
        self._dtype = ""
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
        self._dtype = ", ".join(sorted(kinds))
        return model

    def describe(self) -> dict[str, Any]:
        """Names of device, precision and BLAS, for reports."""
        device = "gpu" if self._on_gpu else "cpu"
        return {"device": device, "dtype": self._dtype} | blas.describe()

    def device_bytes(self) -> int:
        """Peak bytes by MLX's counter on a GPU; 0 on a CPU, where the process's peak is used."""
        import mlx.core as mx

        return mx.get_peak_memory() if self._on_gpu else 0


class MlxLm(MlxProgram):
    """mlx-lm on a model of text alone, or a LLaVA's language model.

    Option: `draft_tokens`, by default the library's.
    """

    def __init__(self, task: Task) -> None:
        from mlx_lm import utils

        super().__init__(task)
        loader: Any = utils
        self._tokenizer = loader.load_tokenizer(Path(task.model))
        self._sees = read_config(Path(task.model)).vision is not None
        self._model = self._language_model(task.model, task.dtype)
        if task.draft:
            self._options["draft_model"] = self._language_model(task.draft, task.dtype)
        if tokens := task.options.get("draft_tokens"):
            self._options["num_draft_tokens"] = tokens

    def answer(self, question: Question, clock: Clock) -> tuple[list[int], int]:
        """Answer with `stream_generate`; raises UsageError for an image."""
        from mlx_lm import stream_generate

        if images_of(question):
            raise UsageError("mlx-lm loads language models and sees no images")
        text = text_of(question)
        content = [{"type": "text", "text": text}] if self._sees else text
        prompt = self._tokenizer.apply_chat_template(
            [{"role": "user", "content": content}], add_generation_prompt=True, tokenize=False
        )
        tokens, rounds = [], 0
        for step in stream_generate(self._model, self._tokenizer, prompt, **self._options):
            clock.known(step.generation_tokens)
            tokens.append(step.token)
            rounds += not step.from_draft
        ends = self._tokenizer.eos_token_ids
        return [token for token in tokens if token not in ends], rounds

    def _language_model(self, directory: str, dtype: str) -> Any:
        from mlx_lm.utils import load_model

        sees = read_config(Path(directory)).vision is not None
        classes: dict[str, Any] = (
            {"get_model_classes": partial(_classes, Path(directory))} if sees else {}
        )
        model, _ = load_model(Path(directory), **classes)
        return self.with_dtype(model, dtype)


def _classes(directory: Path, config: dict[str, Any]) -> tuple[Any, Any]:  # noqa: ARG001
    """The classes that mlx-lm's loader builds for a LLaVA `config`, which it does not support."""
    from mlx_lm.models import llama

    library: Any = llama
    text = asdict(read_config(directory).text)

    class LanguagePart(library.Model):  # type: ignore[misc]  # chosen at run time
        def sanitize(self, weights: dict[str, Any]) -> dict[str, Any]:
            sanitized: dict[str, Any] = super().sanitize(dict(_renamed(weights)))
            return sanitized

    class Arguments:
        @staticmethod
        def from_dict(_: dict[str, Any]) -> Any:
            return library.ModelArgs.from_dict(text | {"model_type": "llama"})

    return LanguagePart, Arguments


def _renamed(weights: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    for name, value in weights.items():
        for prefix, new in PREFIXES.items():
            if name.startswith(prefix):
                yield new + name.removeprefix(prefix), value


class MlxVlm(MlxProgram):
    """mlx-vlm, for images and text."""

    def __init__(self, task: Task) -> None:
        from mlx_vlm import load  # type: ignore[import-not-found, unused-ignore]

        super().__init__(task)
        self._model, self._processor = load(task.model)
        self.with_dtype(self._model, task.dtype)
        self._options["temperature"] = 0.0

    def answer(self, question: Question, clock: Clock) -> tuple[list[int], int]:
        """Answer a question with mlx-vlm's `stream_generate`."""
        from mlx_vlm import stream_generate
        from mlx_vlm.prompt_utils import (  # type: ignore[import-not-found, unused-ignore]
            apply_chat_template,
        )

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


def load_program(task: Task) -> MlxProgram:
    """The program that the task names."""
    return MlxVlm(task) if task.options["program"] == "mlx-vlm" else MlxLm(task)


if __name__ == "__main__":
    main(load_program)
