"""mlx-lm on a LLaVA's language model as a worker: `python -m mmspec_mlx.peer_mlx_lm`."""

from collections.abc import Iterator
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import mlx.core as mx

from mmspec.bench.peers.serve import Clock, serve
from mmspec.bench.peers.wire import Question, Setup
from mmspec.config import read_config
from mmspec.errors import UsageError
from mmspec_mlx.peer_mlx import describe, device_bytes, use_device, with_dtype

PREFIXES = {
    "model.language_model.": "model.",
    "language_model.model.": "model.",
    "language_model.lm_head.": "lm_head.",
    "lm_head.": "lm_head.",
}
"""Where a LLaVA's checkpoint keeps its Llama, and what mlx-lm calls the same."""


class MlxLmPeer:
    """Text alone.  Options: `draft_tokens` (without it the library's default)."""

    def __init__(self, setup: Setup) -> None:
        """Load the language models of target and draft."""
        from mlx_lm import utils

        use_device(setup.device)
        self._model = _language_model(setup.model, setup.dtype)
        loader: Any = utils
        self._tokenizer = loader.load_tokenizer(Path(setup.model))
        self._options: dict[str, Any] = {}
        if setup.draft:
            self._options["draft_model"] = _language_model(setup.draft, setup.dtype)
        if tokens := setup.options.get("draft_tokens"):
            self._options["num_draft_tokens"] = tokens

    def answer(self, question: Question, clock: Clock) -> tuple[list[int], int]:
        """Answer with `stream_generate`; raises UsageError for an image."""
        from mlx_lm import stream_generate

        if question.images:
            raise UsageError("mlx-lm loads language models and sees no images")
        content = [{"type": "text", "text": question.text}]
        prompt = self._tokenizer.apply_chat_template(
            [{"role": "user", "content": content}], add_generation_prompt=True, tokenize=False
        )
        tokens, rounds = [], 0
        for said in stream_generate(
            self._model,
            self._tokenizer,
            prompt,
            max_tokens=question.max_tokens,
            **self._options,
        ):
            clock.known(said.generation_tokens)
            tokens.append(said.token)
            rounds += not said.from_draft
        ends = self._tokenizer.eos_token_ids
        return [token for token in tokens if token not in ends], rounds

    def describe(self) -> dict[str, Any]:
        """Versions, device and BLAS."""
        return describe("mlx-lm", self._model)

    def device_bytes(self) -> int:
        """MLX's counter on a GPU."""
        return device_bytes()


def _language_model(directory: str, dtype: str) -> Any:
    """Read a LLaVA's Llama by mlx-lm's own loader."""
    from mlx_lm.utils import load_model

    model, _ = load_model(Path(directory), get_model_classes=partial(_classes, Path(directory)))
    return with_dtype(model, dtype)


def _classes(directory: Path, config: dict[str, Any]) -> tuple[Any, Any]:  # noqa: ARG001
    """What mlx-lm builds for a LLaVA's `config`, which it would not know."""
    from mlx_lm.models import llama

    library: Any = llama
    text = asdict(read_config(directory).text)

    class LanguagePart(library.Model):  # type: ignore[misc]  # chosen at run time
        def sanitize(self, weights: dict[str, mx.array]) -> dict[str, mx.array]:
            sanitized: dict[str, mx.array] = super().sanitize(dict(_renamed(weights)))
            return sanitized

    class Arguments:
        @staticmethod
        def from_dict(_: dict[str, Any]) -> Any:
            return library.ModelArgs.from_dict(text | {"model_type": "llama"})

    return LanguagePart, Arguments


def _renamed(weights: dict[str, mx.array]) -> Iterator[tuple[str, mx.array]]:
    for name, value in weights.items():
        for prefix, new in PREFIXES.items():
            if name.startswith(prefix):
                yield new + name.removeprefix(prefix), value


if __name__ == "__main__":
    serve(MlxLmPeer)
