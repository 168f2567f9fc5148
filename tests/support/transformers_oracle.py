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


def decoder_layer(config: Mapping[str, Any], tensors: Mapping[str, torch.Tensor]) -> Any:
    """The one decoder layer of a head, Qwen3's where queries and keys are normed.

    It has no first norm where the file has none; an EAGLE-3 head's attention reads twice the width.
    """
    from transformers import Qwen3Config
    from transformers.models.qwen3.modeling_qwen3 import Qwen3DecoderLayer

    names = ("hidden_size", "intermediate_size", "num_attention_heads", "num_key_value_heads")
    sizes = {name: config[name] for name in (*names, "rms_norm_eps")}
    size = config.get("head_dim", sizes["hidden_size"] // sizes["num_attention_heads"])
    biased, rope = config.get("qkv_bias", False), {"rope_theta": config["rope_theta"]}
    shape = Qwen3Config(
        **sizes,
        head_dim=size,
        attention_bias=biased,
        rope_parameters=rope | {"rope_type": "default"},
    )
    shape._attn_implementation = "eager"
    layer, stem = Qwen3DecoderLayer(shape, 0), "layers.0."
    given = {k.removeprefix(stem): t for k, t in tensors.items() if k.startswith(stem)}
    attention = layer.self_attn
    if "self_attn.q_norm.weight" not in given:
        attention.q_norm = attention.k_norm = torch.nn.Identity()
    for part in "qkv":
        outputs, inputs = given[f"self_attn.{part}_proj.weight"].shape
        setattr(attention, f"{part}_proj", torch.nn.Linear(inputs, outputs, bias=biased))
    if "input_layernorm.weight" not in given:
        layer.input_layernorm = torch.nn.Identity()
    if biased:
        given["self_attn.o_proj.bias"] = torch.zeros(sizes["hidden_size"])
    given.pop("hidden_norm.weight", None)
    layer.load_state_dict(given)
    return layer.eval()


def turns(layer: Any, places: Sequence[int]) -> Any:
    """Cosines and sines of rotary positions."""
    from transformers.models.qwen3.modeling_qwen3 import Qwen3RotaryEmbedding

    return Qwen3RotaryEmbedding(layer.self_attn.config)(torch.zeros(1), torch.tensor([[*places]]))


def outputs(layer: Any, rows: Sequence[torch.Tensor], places: Sequence[int]) -> torch.Tensor:
    """What a layer makes [n, H] of n rows at their positions, each seeing those before it."""
    x = torch.stack([*rows])[None]
    mask = torch.full((len(rows), len(rows)), float("-inf")).triu(1)[None, None]
    out = layer(x, attention_mask=mask, position_embeddings=turns(layer, places))
    return (out[0] if isinstance(out, tuple) else out)[0]
