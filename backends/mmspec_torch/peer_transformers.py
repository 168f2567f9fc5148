"""transformers' `generate` as a worker: `python -m mmspec_torch.peer_transformers`."""

from pathlib import Path
from typing import Any

import torch

from mmspec.bench.peers.serve import Clock, serve
from mmspec.bench.peers.wire import Question, Setup
from mmspec.config import read_config
from mmspec.errors import UsageError
from mmspec_torch.device import find_device, find_dtype, require_ieee_float32


class TransformersPeer:
    """Options: `assistant` ('whole', or 'text' for its language model alone),
    `assistant_tokens` (a fixed number each round; without it the library's own schedule),
    `lookup` (tokens that prompt lookup proposes)."""

    def __init__(self, setup: Setup) -> None:
        """Load model, processor and assistant; raises UsageError for MLX-quantized weights."""
        from transformers import AutoProcessor

        self._device = find_device(setup.device)
        self._dtype = setup.dtype
        require_ieee_float32()
        processors: Any = AutoProcessor
        self._processor = processors.from_pretrained(setup.model, local_files_only=True)
        self._model = self._load(setup.model)
        self._options = self._generation(setup)

    def _load(self, directory: str) -> Any:
        from transformers import LlavaForConditionalGeneration

        config = read_config(Path(directory))
        if config.quantization is not None:
            raise UsageError(f"transformers cannot read {directory}: it is MLX-quantized")
        kind = find_dtype(self._dtype, self._device, config.dtype)
        loaded: Any = LlavaForConditionalGeneration.from_pretrained(
            directory, dtype=kind, local_files_only=True
        )
        return loaded.to(self._device).eval()

    def _generation(self, setup: Setup) -> dict[str, Any]:
        """The arguments that `generate` documents for each kind of drafting."""
        if lookup := setup.options.get("lookup"):
            return {"prompt_lookup_num_tokens": lookup}
        if not setup.draft:
            return {}
        assistant = self._load(setup.draft)
        if setup.options["assistant"] == "text":
            assistant = _language_model(assistant)
        if tokens := setup.options.get("assistant_tokens"):
            assistant.generation_config.num_assistant_tokens = tokens
            assistant.generation_config.num_assistant_tokens_schedule = "constant"
            assistant.generation_config.assistant_confidence_threshold = 0.0
        return {"assistant_model": assistant}

    @torch.inference_mode()
    def answer(self, question: Question, clock: Clock) -> tuple[list[int], int]:
        """Answer with `generate`, greedily, on what its own processor makes of the question."""
        given = self._processor.apply_chat_template(
            [{"role": "user", "content": [_content(part) for part in question.parts]}],
            add_generation_prompt=True,
            tokenize=True,
            return_dict=True,
            return_tensors="pt",
        ).to(self._device, self._model.dtype)
        prompt = given["input_ids"].shape[1]
        said = self._model.generate(
            **given,
            **self._options,
            do_sample=False,
            max_new_tokens=question.max_tokens,
            streamer=_Streamer(clock),
        )
        stop = self._model.generation_config.eos_token_id
        ends = {stop} if isinstance(stop, int) else set(stop)
        tokens = [token for token in said[0, prompt:].tolist() if token not in ends]
        return tokens, len(clock.events)

    def describe(self) -> dict[str, Any]:
        """Versions, device and threads."""
        from transformers import __version__

        return {
            "transformers": __version__,
            "torch": torch.__version__,
            "threads": torch.get_num_threads(),
            "device": str(self._device),
            "dtype": str(self._model.dtype).removeprefix("torch."),
        }

    def device_bytes(self) -> int:
        """CUDA's counter; 0 without CUDA."""
        return torch.cuda.max_memory_allocated()


class _Streamer:
    """Given the prompt, then the tokens of every forward, as they are settled."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._said = 0
        self._prompted = False

    def put(self, ids: torch.Tensor) -> None:
        """Tokens on the host, which are known now."""
        self._said += ids.numel() if self._prompted else 0
        self._prompted = True
        self._clock.known(self._said)

    def end(self) -> None:
        """Nothing is held back."""


def _content(part: dict[str, str]) -> dict[str, str]:
    if "image" in part:
        return {"type": "image", "path": part["image"]}
    return {"type": "text", "text": part["text"]}


def _language_model(llava: Any) -> Any:
    """The text part of a LLaVA as a model of its own, on the same weights."""
    from transformers import LlamaForCausalLM

    with torch.device("meta"):
        text: Any = LlamaForCausalLM(llava.config.text_config)
    text.model, text.lm_head = llava.model.language_model, llava.lm_head
    return text.eval()


if __name__ == "__main__":
    serve(TransformersPeer)
