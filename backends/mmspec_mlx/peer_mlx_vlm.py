"""mlx-vlm as a worker: `python -m mmspec_mlx.peer_mlx_vlm`, in an environment of its own."""

from typing import Any

from mmspec.bench.peers.serve import Clock, serve
from mmspec.bench.peers.wire import Question, Setup
from mmspec_mlx.peer_mlx import describe, device_bytes, use_device, with_dtype


class MlxVlmPeer:
    """Images and text; a draft is passed on as `draft_model`."""

    def __init__(self, setup: Setup) -> None:
        """Load by mlx-vlm's own loader."""
        from mlx_vlm import load  # type: ignore[import-not-found, unused-ignore]

        use_device(setup.device)
        self._model, self._processor = load(setup.model)
        with_dtype(self._model, setup.dtype)
        self._options: dict[str, Any] = {}
        if setup.draft:
            from mlx_vlm.speculative import (  # type: ignore[import-not-found, unused-ignore]
                drafters,
            )

            drafter, kind = drafters.load_drafter(setup.draft)
            self._options = {"draft_model": drafter, "draft_kind": kind}

    def answer(self, question: Question, clock: Clock) -> tuple[list[int], int]:
        """Answer with `stream_generate`, greedily."""
        from mlx_vlm import stream_generate
        from mlx_vlm.prompt_utils import (  # type: ignore[import-not-found, unused-ignore]
            apply_chat_template,
        )

        images = question.images
        prompt = apply_chat_template(
            self._processor, self._model.config, question.text, num_images=len(images)
        )
        tokens = []
        for said in stream_generate(
            self._model,
            self._processor,
            prompt,
            image=images or None,
            max_tokens=question.max_tokens,
            temperature=0.0,
            **self._options,
        ):
            clock.known(said.generation_tokens)
            tokens.append(said.token)
        return [token for token in tokens if token not in self._ends()], len(clock.events)

    def _ends(self) -> set[int]:
        tokenizer = self._processor.tokenizer
        return {tokenizer.eos_token_id}

    def describe(self) -> dict[str, Any]:
        """Versions, device and BLAS."""
        return describe("mlx-vlm", self._model)

    def device_bytes(self) -> int:
        """MLX's counter on a GPU."""
        return device_bytes()


if __name__ == "__main__":
    serve(MlxVlmPeer)
