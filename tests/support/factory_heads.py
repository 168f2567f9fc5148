"""Tiny random heads on disk, in this project's layout and in the published ones.

Names and shapes are written out here, never taken from mmspec's manifests.
"""

from pathlib import Path
from typing import Any

from support.factory_layouts import write_json

WIDTH, VOCABULARY, INNER, HEADS, POSITIONS = 64, 320, 128, 4, 1024
KINDS = ("eagle", "msd", "medusa", "hydra", "flash")


def tiny_head(path: Path, kind: str, *, seed: int = 0, echo: float = 0.0, **given: Any) -> Path:
    """Write a random head in this project's layout; returns `path`.

    echo: how much of what comes in goes out again, so that a draft is sometimes right.
    """
    config = head_config(kind, **given)
    tensors = _randomized(_shapes(config), seed)
    if echo and kind in ("eagle", "msd"):
        _echo(tensors, echo)
    return _written(path, config, tensors)


def head_config(kind: str, **given: Any) -> dict[str, Any]:
    """The config.json of a tiny head."""
    config = {
        "model_type": "mmspec_head",
        "kind": kind,
        "hidden_size": WIDTH,
        "vocab_size": VOCABULARY,
    }
    if kind in ("eagle", "msd", "flash"):
        config |= {
            "intermediate_size": INNER,
            "num_attention_heads": HEADS,
            "num_key_value_heads": HEADS,
            "rms_norm_eps": 1e-5,
            "rope_theta": 10000.0,
            "max_position_embeddings": POSITIONS,
            "bias": True,
        }
    if kind in ("medusa", "hydra", "flash"):
        config["slots"] = 3
    if kind == "flash":
        config["queries"] = 5
    return config | given


def published(path: Path, model_type: str, *, pickled: bool = False, **given: Any) -> Path:
    """Write a random head as EAGLE's and MSD's authors publish them, embedding included."""
    config = published_config(model_type) | given
    width, vocabulary = config["hidden_size"], config["vocab_size"]
    shapes = {"embed_tokens.weight": (vocabulary, width), "fc.weight": (width, 2 * width)}
    if config.get("bias", True):
        shapes["fc.bias"] = (width,)
    shapes |= _layer(config)
    return _written(path, config, _randomized(shapes, 7), pickled=pickled)


def published_config(model_type: str) -> dict[str, Any]:
    """A flat config.json, as the one of a Llama with one layer."""
    architecture = {"llava": "LlavaLlamaForCausalLM", "llama": "LlamaForCausalLM"}
    return {
        "architectures": [architecture.get(model_type, "Qwen2ForCausalLM")],
        "bos_token_id": 1,
        "eos_token_id": 2,
        "hidden_act": "silu",
        "hidden_size": WIDTH,
        "initializer_range": 0.02,
        "intermediate_size": INNER,
        "max_position_embeddings": POSITIONS,
        "model_type": model_type,
        "num_attention_heads": HEADS,
        "num_hidden_layers": 1,
        "num_key_value_heads": HEADS,
        "pad_token_id": 0,
        "pretraining_tp": 1,
        "rms_norm_eps": 1e-05,
        "rope_scaling": None,
        "tie_word_embeddings": False,
        "torch_dtype": "float16",
        "transformers_version": "4.31.0",
        "use_cache": True,
        "vocab_size": VOCABULARY,
    }


def _shapes(config: dict[str, Any]) -> dict[str, tuple[int, ...]]:
    kind, width, slots = config["kind"], config["hidden_size"], config.get("slots", 0)
    shapes: dict[str, tuple[int, ...]] = {}
    if kind in ("eagle", "msd", "flash"):
        shapes |= {"fc.weight": (width, 2 * width)}
        shapes |= {"fc.bias": (width,)} if config["bias"] else {}
        shapes |= _layer(config)
    if config.get("queries"):
        shapes |= {"compressor.queries": (config["queries"], width)}
        shapes |= {"compressor.norm.weight": (width,)}
    if config.get("vision") == "mean":
        shapes |= {"vision.weight": (width, width)}
    if config.get("vision") == "attention":
        shapes |= {f"vision.{part}.weight": (width, width) for part in ("query", "output")}
    for slot in range(slots):
        if kind == "medusa":
            shapes |= _linear(f"heads.{slot}.linear", width, width)
        elif kind == "hydra":
            shapes |= _linear(f"heads.{slot}.linear_1", width, width * (slot + 2))
            shapes |= _linear(f"heads.{slot}.linear_2", width, width)
        else:
            shapes |= _linear(f"slots.{slot}", width, width)
    return shapes


def _layer(config: dict[str, Any]) -> dict[str, tuple[int, ...]]:
    width, inner = config["hidden_size"], config["intermediate_size"]
    keys = width // config["num_attention_heads"] * config["num_key_value_heads"]
    shapes = {
        "self_attn.q_proj.weight": (width, width),
        "self_attn.k_proj.weight": (keys, width),
        "self_attn.v_proj.weight": (keys, width),
        "self_attn.o_proj.weight": (width, width),
        "mlp.gate_proj.weight": (inner, width),
        "mlp.up_proj.weight": (inner, width),
        "mlp.down_proj.weight": (width, inner),
        "post_attention_layernorm.weight": (width,),
    }
    if config.get("qkv_bias"):
        shapes |= {"self_attn.q_proj.bias": (width,)}
        shapes |= {f"self_attn.{part}_proj.bias": (keys,) for part in "kv"}
    if config.get("kind") == "flash" or config.get("input_norm"):
        shapes["input_layernorm.weight"] = (width,)
    return {f"layers.0.{name}": shape for name, shape in shapes.items()}


def _linear(path: str, outputs: int, inputs: int) -> dict[str, tuple[int, ...]]:
    return {f"{path}.weight": (outputs, inputs), f"{path}.bias": (outputs,)}


def _randomized(shapes: dict[str, tuple[int, ...]], seed: int) -> dict[str, Any]:
    import torch

    draws = torch.Generator().manual_seed(seed)
    tensors = {}
    for name, shape in shapes.items():
        noise = torch.randn(shape, generator=draws)
        if len(shape) == 1:
            tensors[name] = 0.1 * noise + float("norm" in name)
        else:
            tensors[name] = noise * shape[1] ** -0.5
    return tensors


def _echo(tensors: dict[str, Any], echo: float) -> None:
    """Let the hidden state through: what comes next is often what came before."""
    import torch

    width = tensors["fc.weight"].shape[0]
    tensors["fc.weight"] *= 1 - echo
    tensors["fc.weight"][:, width:] += echo * torch.eye(width)
    for name in ("self_attn.o_proj", "mlp.down_proj"):
        tensors[f"layers.0.{name}.weight"] *= 1 - echo


def _written(
    path: Path, config: dict[str, Any], tensors: dict[str, Any], *, pickled: bool = False
) -> Path:
    import torch
    from safetensors.torch import save_file

    path.mkdir(parents=True)
    write_json(path / "config.json", config)
    if pickled:
        halves = {name: tensor.half() for name, tensor in tensors.items()}
        torch.save(halves, path / "pytorch_model.bin")
    else:
        save_file(tensors, path / "model.safetensors", metadata={"format": "pt"})
    return path
