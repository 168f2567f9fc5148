"""Tiny random heads on disk, in this project's layout and in the published ones.

Names and shapes are written out here, never taken from mmspec's manifests.
"""

from pathlib import Path
from typing import Any

from support import factory_blocks
from support.factory_layouts import write_json

WIDTH, VOCABULARY, SIZES = factory_blocks.WIDTH, factory_blocks.VOCABULARY, factory_blocks.SIZES
CAPTURED = [0, 1, 2]
"""The layers that an EAGLE-3 head reads of the tiny targets."""
BLOCKS = ("dflash", "dspark")
KINDS = ("eagle", "eagle3", "msd", "vispec", "medusa", "hydra", "flash", *BLOCKS)


def tiny_head(path: Path, kind: str, *, seed: int = 0, **given: Any) -> Path:
    """Write a random head in this project's layout; returns `path`."""
    config = head_config(kind, **given)
    tensors = randomized(_shapes(config), seed)
    if kind in ("eagle3", *BLOCKS):
        tensors |= vocabulary_maps(config)
    return written(path, config, tensors)


def head_config(kind: str, **given: Any) -> dict[str, Any]:
    """The config.json of a tiny head."""
    if kind in BLOCKS:
        return factory_blocks.block_config(kind, **given)
    config: dict[str, Any] = {"model_type": "mmspec_head", "kind": kind}
    config |= {"hidden_size": WIDTH, "vocab_size": VOCABULARY}
    if kind not in ("medusa", "hydra"):
        config |= SIZES | {"rope_theta": 10000.0, "bias": kind != "eagle3"}
    if kind == "eagle3":
        config |= {"draft_vocab_size": VOCABULARY, "eagle_aux_hidden_state_layer_ids": CAPTURED}
    if kind in ("medusa", "hydra", "flash"):
        config["slots"] = 3
    if kind == "flash":
        config["queries"] = 5
    return config | given


def published(
    path: Path, model_type: str, *, pickled: bool = False, views: int = 0, **given: Any
) -> Path:
    """Write a random head as EAGLE's and MSD's authors publish them, embedding included.

    views: as ViSpec's authors do, with so many vectors of an image.
    """
    config = published_config(model_type) | given
    width, vocabulary = config["hidden_size"], config["vocab_size"]
    shapes = {"embed_tokens.weight": (vocabulary, width), "fc.weight": (width, 2 * width)}
    if config.get("bias", True):
        shapes["fc.bias"] = (width,)
    shapes |= _layer(config)
    if views:
        shapes |= _views(config, views)
    return written(path, config, randomized(shapes, 7), pickled=pickled)


def published_config(model_type: str) -> dict[str, Any]:
    """A flat config.json, as the one of a Llama with one layer."""
    architecture = {"llava": "LlavaLlamaForCausalLM", "llama": "LlamaForCausalLM"}
    return SIZES | {
        "architectures": [architecture.get(model_type, "Qwen2ForCausalLM")],
        "model_type": model_type,
        "hidden_act": "silu",
        "num_hidden_layers": 1,
        "pretraining_tp": 1,
        "rope_scaling": None,
        "tie_word_embeddings": False,
        "torch_dtype": "float16",
        "use_cache": True,
    }


def vocabulary_maps(config: dict[str, Any]) -> dict[str, Any]:
    """d2t and t2d of an EAGLE-3 head that drafts every third token; none if it drafts all."""
    import torch

    vocabulary = config["vocab_size"]
    count = config.get("draft_vocab_size", vocabulary)
    if count == vocabulary:
        return {}
    ids = torch.linspace(2, vocabulary - 1, count).long()
    marked = torch.zeros(vocabulary, dtype=torch.bool)
    marked[ids] = True
    return {"d2t": ids - torch.arange(count), "t2d": marked}


def specforge(path: Path, *, seed: int = 0, pickled: bool = False, **given: Any) -> Path:
    """Write a random EAGLE-3 head as SpecForge, AngelSlim and EAGLE's authors publish them."""
    config = published_config("llama") | {
        "architectures": ["LlamaForCausalLMEagle3"],
        "draft_vocab_size": 100,
        "eagle_config": {"eagle_aux_hidden_state_layer_ids": [layer - 1 for layer in CAPTURED]},
    }
    config |= given
    tensors = randomized(_eagle3(config), seed) | vocabulary_maps(config)
    renamed = {name.replace("layers.0.", "midlayer."): one for name, one in tensors.items()}
    return written(path, config, renamed, pickled=pickled)


def speculators(path: Path, *, seed: int = 0, **given: Any) -> Path:
    """Write a random EAGLE-3 head as vLLM's speculators package does, embedding included."""
    layer = SIZES | {
        "model_type": "llama",
        "num_hidden_layers": 1,
        "head_dim": WIDTH // SIZES["num_attention_heads"],
        "rope_theta": 10000.0,
        "hidden_act": "silu",
        "tie_word_embeddings": False,
    }
    layer |= given.pop("layer", {})
    config = factory_blocks.speculators_config("eagle3", "Eagle3Speculator", layer, 3)
    config |= {"draft_vocab_size": 100, "eagle_aux_hidden_state_layer_ids": CAPTURED} | given
    sizes = layer | config
    tensors = randomized(_eagle3(sizes), seed) | vocabulary_maps(sizes)
    embedding = {"embed_tokens.weight": (sizes["vocab_size"], sizes["hidden_size"])}
    return written(path, config, tensors | randomized(embedding, seed))


def _eagle3(config: dict[str, Any]) -> dict[str, tuple[int, ...]]:
    width = config["hidden_size"]
    layers = len(config.get("eagle_aux_hidden_state_layer_ids") or CAPTURED)
    shapes = {"fc.weight": (width, layers * width), **_layer(config)}
    if config.get("norm_before_fc"):
        shapes["input_norm.weight"] = (layers * width,)
    if config.get("fc_norm"):
        shapes |= {f"fc_norm.{index}.weight": (width,) for index in range(layers)}
    for part in "qkv":
        name = f"layers.0.self_attn.{part}_proj.weight"
        shapes[name] = (shapes[name][0], 2 * width)
    if config.get("qk_norm") or config.get("model_type") == "qwen3":
        size = config.get("head_dim", width // config["num_attention_heads"])
        shapes |= {f"layers.0.self_attn.{part}_norm.weight": (size,) for part in "qk"}
    shapes |= {f"layers.0.{name}.weight": (width,) for name in ("input_layernorm", "hidden_norm")}
    head = {"norm.weight": (width,), "lm_head.weight": (config["draft_vocab_size"], width)}
    return shapes | head


def _shapes(config: dict[str, Any]) -> dict[str, tuple[int, ...]]:
    if config["kind"] in BLOCKS:
        return factory_blocks.shapes(config)
    if config["kind"] == "eagle3":
        return _eagle3(config)
    kind, width, slots = config["kind"], config["hidden_size"], config.get("slots", 0)
    shapes: dict[str, tuple[int, ...]] = {}
    if kind == "vispec":
        shapes |= _views(config, config.get("queries", 2))
    if kind in ("eagle", "msd", "vispec", "flash"):
        shapes |= {"fc.weight": (width, 2 * width)}
        shapes |= {"fc.bias": (width,)} if config["bias"] else {}
        shapes |= _layer(config)
    if kind == "flash" and config.get("queries"):
        shapes |= {"compressor.queries": (config["queries"], width)}
        shapes |= {"compressor.norm.weight": (width,)}
    if config.get("vision") == "mean":
        shapes |= {"vision.weight": (width, width)}
    for slot in range(slots):
        if kind == "medusa":
            shapes |= _linear(f"heads.{slot}.linear", width, width)
        elif kind == "hydra":
            shapes |= _linear(f"heads.{slot}.linear_1", width, width * (slot + 2))
            shapes |= _linear(f"heads.{slot}.linear_2", width, width)
        else:
            shapes |= _linear(f"slots.{slot}", width, width)
    return shapes


def _views(config: dict[str, Any], count: int) -> dict[str, tuple[int, ...]]:
    width, heads = config["hidden_size"], config["num_attention_heads"]
    shapes: dict[str, tuple[int, ...]] = {"imadpt.q": (count, heads, width // heads)}
    shapes |= {f"imadpt.{part}_proj.weight": (width, width) for part in "kvo"}
    if config.get("qkv_bias"):
        shapes |= {f"imadpt.{part}_proj.bias": (width,) for part in "kv"}
    fusion = _linear("img_fc", width, 2 * width)
    return shapes | (fusion if config.get("bias", True) else {"img_fc.weight": (width, 2 * width)})


def _layer(config: dict[str, Any]) -> dict[str, tuple[int, ...]]:
    width, inner = config["hidden_size"], config["intermediate_size"]
    size = config.get("head_dim", width // config["num_attention_heads"])
    queries, keys = (size * config[f"num_{part}_heads"] for part in ("attention", "key_value"))
    shapes = {
        "self_attn.q_proj.weight": (queries, width),
        "self_attn.k_proj.weight": (keys, width),
        "self_attn.v_proj.weight": (keys, width),
        "self_attn.o_proj.weight": (width, queries),
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


def randomized(shapes: dict[str, tuple[int, ...]], seed: int) -> dict[str, Any]:
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


def written(
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
