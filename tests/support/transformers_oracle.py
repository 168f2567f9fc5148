"""Transformers' answers to prompts, and the logits that a head's drafts are chosen from."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch


def transformers_model(path: Path) -> Any:
    """The checkpoint as transformers runs it."""
    from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForImageTextToText

    sees = hasattr(AutoConfig.from_pretrained(path), "vision_config")
    kind = AutoModelForImageTextToText if sees else AutoModelForCausalLM
    return kind.from_pretrained(path, dtype=torch.float32).eval()


class Columns(NamedTuple):
    """A prompt in transformers' model."""

    layers: list[torch.Tensor]
    """What each layer reads [n, H], the last norm included."""
    positions: torch.Tensor
    """[3, n] time, row and column."""


def read_columns(model: Any, tokens: Sequence[int], **inputs: Any) -> Columns:
    """Let a model that sees read a prompt."""
    decoder, layers = model.model.language_model, list[torch.Tensor]()
    positions = [torch.arange(len(tokens)).expand(3, -1)]  # where they count up none are given

    def catch(_module: Any, _given: Any, named: dict[str, Any]) -> None:
        if named["position_ids"] is not None:
            positions.append(named["position_ids"][-3:, 0])

    def catch_layer(_module: Any, given: Any) -> None:
        layers.append(given[0][0])

    hooks = [
        each.register_forward_pre_hook(catch_layer) for each in (*decoder.layers, decoder.norm)
    ]
    hooks += [decoder.register_forward_pre_hook(catch, with_kwargs=True)]
    with torch.inference_mode():
        model(input_ids=torch.tensor([tokens]), **inputs)
    for hook in hooks:
        hook.remove()
    return Columns(layers, positions[-1])


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


def decoder_layer(config: Mapping[str, Any], tensors: Mapping[str, torch.Tensor]) -> Any:
    """The one decoder layer of a head.

    It has no first norm where the file has none; an EAGLE-3 head's attention reads twice the width.
    """
    from transformers import LlamaConfig
    from transformers.models.llama.modeling_llama import LlamaDecoderLayer

    names = ("hidden_size", "intermediate_size", "num_attention_heads", "num_key_value_heads")
    sizes = {name: config[name] for name in (*names, "rms_norm_eps")}
    rope = {"rope_type": "default", "rope_theta": config["rope_theta"]}
    shape = LlamaConfig(**sizes, rope_parameters=rope)
    shape._attn_implementation = "eager"
    layer, stem, biased = LlamaDecoderLayer(shape, 0), "layers.0.", config.get("qkv_bias", False)
    given = {k.removeprefix(stem): t for k, t in tensors.items() if k.startswith(stem)}
    for part in "qkv":
        outputs, inputs = given[f"self_attn.{part}_proj.weight"].shape
        setattr(layer.self_attn, f"{part}_proj", torch.nn.Linear(inputs, outputs, bias=biased))
    if "input_layernorm.weight" not in given:
        layer.input_layernorm = torch.nn.Identity()
    given.pop("hidden_norm.weight", None)
    layer.load_state_dict(given)
    return layer.eval()


def turns(layer: Any, places: Sequence[int]) -> Any:
    """Cosines and sines of rotary positions."""
    from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding

    return LlamaRotaryEmbedding(layer.self_attn.config)(torch.zeros(1), torch.tensor([[*places]]))


def outputs(layer: Any, rows: Sequence[torch.Tensor], places: Sequence[int]) -> torch.Tensor:
    """What a layer makes [n, H] of n rows at their positions, each seeing those before it."""
    x = torch.stack([*rows])[None]
    mask = torch.full((len(rows), len(rows)), float("-inf")).triu(1)[None, None]
    out = layer(x, attention_mask=mask, position_embeddings=turns(layer, places))
    return (out[0] if isinstance(out, tuple) else out)[0]
