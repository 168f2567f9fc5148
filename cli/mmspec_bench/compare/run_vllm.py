"""Runs vLLM in its own environment."""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mmspec_bench.compare.script_io import Clock, Program, Question, Task, images_of

SETTINGS = {
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
    "VLLM_LOGGING_STREAM": "ext://sys.stderr",
    "VLLM_CPU_KVCACHE_SPACE": "1",
}
"""Environment in which vLLM computes in this process, leaves stdout to the report, and takes 1 GiB
for its cache on a CPU, not nearly all memory; what the user has set goes before."""
DRAFTS = "vllm:spec_decode_num_drafts"
"""Name of the counter of drafted rounds."""


def load_vllm(task: Task) -> Program:
    """Load vLLM.  Option: `draft_tokens` of the head in `task.draft`, in speculators' layout."""
    os.environ.update(SETTINGS | os.environ)  # before the import, which reads them
    from vllm import LLM, SamplingParams
    from vllm.platforms import current_platform

    counts = [len(images_of(question)) for group in task.questions.values() for question in group]
    llm: Any = LLM(
        task.model,
        dtype=task.dtype,
        enforce_eager=current_platform.is_cpu(),
        enable_prefix_caching=False,
        mm_processor_cache_gb=0,
        limit_mm_per_prompt={"image": max(counts)},
        disable_log_stats=False,
        speculative_config=_speculation(task),
    )
    sampling = SamplingParams(temperature=0.0, max_tokens=task.max_tokens)

    def drafts() -> int:
        """The number of drafts so far; 0 without speculative decoding."""
        return sum(metric.value for metric in llm.get_metrics() if metric.name == DRAFTS)

    def answer(question: Question, clock: Clock) -> tuple[list[int], int]:
        message = {"role": "user", "content": [_content(part) for part in question]}
        before = drafts()
        output = llm.chat([message], sampling, use_tqdm=False)[0]
        ids = list(output.outputs[0].token_ids)
        clock.record(len(ids))  # vLLM's own times say when the first token was complete
        decoding = output.metrics.last_token_ts - output.metrics.first_token_ts
        clock.events.insert(0, (1, clock.events[-1][1] - decoding))
        rounds, end = drafts() - before, llm.get_tokenizer().eos_token_id
        return [id for id in ids if id != end], 1 + rounds if rounds else len(ids)

    import torch  # last: where vLLM is missing, its name is the reason

    facts = {"device": current_platform.device_type, "dtype": task.dtype}
    return Program(answer, facts, torch.cuda.max_memory_allocated)


def _speculation(task: Task) -> dict[str, Any] | None:
    if task.draft is None:
        return None
    config = json.loads((Path(task.draft) / "config.json").read_text(encoding="utf-8"))
    method, tokens = config["speculators_model_type"], task.options["draft_tokens"]
    return {"method": method, "model": task.draft, "num_speculative_tokens": tokens}


def _content(part: Mapping[str, Any]) -> Mapping[str, Any]:
    from PIL import Image

    if "path" in part:
        return {"type": "image_pil", "image_pil": Image.open(part["path"]).convert("RGB")}
    return part
