"""Runs mlx-vlm in its own environment: `python -m mmspec_bench.compare.run_mlx_vlm TASK`."""

from typing import Any

from mmspec_bench.compare.mlx_program import MlxProgram
from mmspec_bench.script_io import Clock, Question, Task, images_of, main, text_of


class MlxVlm(MlxProgram):
    """mlx-vlm, for images and text."""

    def __init__(self, task: Task) -> None:
        from mlx_vlm import load  # type: ignore[import-not-found, unused-ignore]

        super().__init__(task.device)
        self._model, self._processor = load(task.model)
        self.with_dtype(self._model, task.dtype)
        self._options: dict[str, Any] = {"max_tokens": task.max_tokens, "temperature": 0.0}

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


if __name__ == "__main__":
    main(MlxVlm)
