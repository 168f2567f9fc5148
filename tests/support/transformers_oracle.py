"""Transformers' answers to prompts, and the logits that a head's drafts are chosen from."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch


def transformers_model(path: Path) -> Any:
    """The checkpoint as transformers runs it."""
    from transformers import AutoConfig, LlamaForCausalLM, LlavaForConditionalGeneration

    kind = AutoConfig.from_pretrained(path).model_type
    cls = {"llava": LlavaForConditionalGeneration, "llama": LlamaForCausalLM}[kind]
    return cls.from_pretrained(path, dtype=torch.float32).eval()


def generated(oracle: Any, tokens: Sequence[int], count: int, **inputs: Any) -> list[int]:
    """What transformers' own generate says, stop tokens ignored."""
    ids = torch.tensor([tokens])
    out = oracle.generate(
        input_ids=ids,
        attention_mask=torch.ones_like(ids),
        do_sample=False,
        max_new_tokens=count,
        eos_token_id=-1,
        pad_token_id=0,
        **inputs,
    )
    return out[0, len(tokens) :].tolist()


def recorded(target):
    """The logits, row by row, that a head's drafts are chosen from, from now on."""
    rows, project = [], target.project

    def recording(states):
        logits = project(states)
        rows.extend(logits)
        return logits

    target.project = recording
    return rows
