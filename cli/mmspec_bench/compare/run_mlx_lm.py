"""Runs mlx-lm on a LLaVA's language model: `python -m mmspec_bench.compare.run_mlx_lm TASK`."""

from collections.abc import Iterator
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from mmspec.checkpoints.config import read_config
from mmspec.ground.errors import UsageError
from mmspec_bench.compare.mlx_program import MlxProgram
from mmspec_bench.script_io import Clock, Question, Task, images_of, main, text_of

PREFIXES = {
    "model.language_model.": "model.",
    "language_model.model.": "model.",
    "language_model.lm_head.": "lm_head.",
    "lm_head.": "lm_head.",
}
"""Prefixes of the Llama's tensors in LLaVA checkpoints, and mlx-lm's prefixes for them."""


class MlxLm(MlxProgram):
    """mlx-lm, for text only.  Option: `draft_tokens`, by default the library's."""

    def __init__(self, task: Task) -> None:
        from mlx_lm import utils

        super().__init__(task.device)
        loader: Any = utils
        self._tokenizer = loader.load_tokenizer(Path(task.model))
        self._model = self._language_model(task.model, task.dtype)
        self._options: dict[str, Any] = {"max_tokens": task.max_tokens}
        if task.draft:
            self._options["draft_model"] = self._language_model(task.draft, task.dtype)
        if tokens := task.options.get("draft_tokens"):
            self._options["num_draft_tokens"] = tokens

    def answer(self, question: Question, clock: Clock) -> tuple[list[int], int]:
        """Answer with `stream_generate`; raises UsageError for an image."""
        from mlx_lm import stream_generate

        if images_of(question):
            raise UsageError("mlx-lm loads language models and sees no images")
        content = [{"type": "text", "text": text_of(question)}]
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

        classes = partial(_classes, Path(directory))
        model, _ = load_model(Path(directory), get_model_classes=classes)
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


if __name__ == "__main__":
    main(MlxLm)
