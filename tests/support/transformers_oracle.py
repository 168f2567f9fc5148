"""Transformers' answers to prompts, and the logits that a head's drafts are chosen from."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch


def transformers_model(path: Path) -> Any:
    """The checkpoint as transformers runs it."""
    from transformers import AutoConfig, LlamaForCausalLM, LlavaForConditionalGeneration

    kind = AutoConfig.from_pretrained(path).model_type
    cls = {"llava": LlavaForConditionalGeneration, "llama": LlamaForCausalLM}[kind]
    return cls.from_pretrained(path, dtype=torch.float32).eval()


def generated(
    oracle: Any, tokens: Sequence[int], count: int, *, stops: bool = False, **inputs: Any
) -> list[int]:
    """What transformers' own generate says; stops: up to a stop token."""
    ids, inputs = torch.tensor([tokens]), inputs if stops else inputs | {"eos_token_id": -1}
    out = oracle.generate(
        input_ids=ids,
        attention_mask=torch.ones_like(ids),
        do_sample=False,
        max_new_tokens=count,
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


def llama_layer(config: Mapping[str, Any], tensors: Mapping[str, torch.Tensor]) -> Any:
    """The one decoder layer of a head; it has no first norm where the file has none."""
    from transformers import LlamaConfig
    from transformers.models.llama.modeling_llama import LlamaDecoderLayer

    names = ("hidden_size", "intermediate_size", "num_attention_heads", "num_key_value_heads")
    sizes = {name: config[name] for name in (*names, "rms_norm_eps")}
    biased = config.get("qkv_bias", False)
    shape = LlamaConfig(**sizes, rope_theta=config["rope_theta"], attention_bias=biased)
    shape._attn_implementation = "eager"
    layer, stem = LlamaDecoderLayer(shape, 0), "layers.0."
    given = {k.removeprefix(stem): t for k, t in tensors.items() if k.startswith(stem)}
    if "input_layernorm.weight" not in given:
        layer.input_layernorm = torch.nn.Identity()
    if biased:
        given["self_attn.o_proj.bias"] = torch.zeros(sizes["hidden_size"])
    layer.load_state_dict(given)
    return layer.eval()


def outputs(layer: Any, rows: Sequence[torch.Tensor], places: Sequence[int]) -> torch.Tensor:
    """What a layer makes [n, H] of n rows at their positions, each seeing those before it."""
    from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding

    x = torch.stack([*rows])[None]
    mask = torch.full((len(rows), len(rows)), float("-inf")).triu(1)[None, None]
    angles = LlamaRotaryEmbedding(layer.self_attn.config)(x, torch.tensor([[*places]]))
    out = layer(x, attention_mask=mask, position_embeddings=angles)
    return (out[0] if isinstance(out, tuple) else out)[0]
