"""Tiny random heads on disk in this project's layout; `factory_published` has the published ones.

Names and shapes are written out here, never taken from mmspec's manifests.
"""

from pathlib import Path
from typing import Any

from support.factory_layouts import write_json

Shapes = dict[str, tuple[int, ...]]

WIDTH, VOCABULARY, MASK = 64, 320, 5
CAPTURED, BLOCK_CAPTURED = [0, 1, 2], [0, 1]
"""The layers of the tiny targets that an EAGLE-3 head reads, and those of a block drafter."""
SIZES = {
    "hidden_size": WIDTH,
    "intermediate_size": 128,
    "num_attention_heads": 4,
    "num_key_value_heads": 4,
    "vocab_size": VOCABULARY,
    "max_position_embeddings": 1024,
    "rms_norm_eps": 1e-5,
}
"""What all heads but Medusa and Hydra say of themselves."""
BLOCK_SIZES = SIZES | {"num_hidden_layers": 2, "num_key_value_heads": 2, "head_dim": 32}
BLOCK_SIZES |= {"rms_norm_eps": 1e-6, "rope_theta": 10000.0}
BLOCKS = ("dflash", "dspark")
KINDS = ("eagle", "eagle3", "msd", "vispec", "medusa", "hydra", "flash", *BLOCKS)


def tiny_head(path: Path, kind: str, *, seed: int = 0, **given: Any) -> Path:
    """Write a random head in this project's layout; returns `path`."""
    config = head_config(kind, **given)
    maps = vocabulary_maps(config) if kind in ("eagle3", *BLOCKS) else {}
    return written(path, config, randomized(_shapes(config), seed) | maps)


def head_config(kind: str, **given: Any) -> dict[str, Any]:
    """The config.json of a tiny head."""
    config: dict[str, Any] = {"model_type": "mmspec_head", "kind": kind}
    if kind in BLOCKS:
        config |= BLOCK_SIZES | {"target_layer_ids": BLOCK_CAPTURED}
        config |= {"block_size": 5, "mask_token_id": MASK}
        if kind == "dspark":
            config |= {"markov_rank": 8, "enable_confidence_head": True, "sample_from_anchor": True}
        return config | given
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


def vocabulary_maps(config: dict[str, Any]) -> dict[str, Any]:
    """d2t and t2d of a head that drafts every third token; none if it drafts all."""
    import torch

    vocabulary = config["vocab_size"]
    count = config.get("draft_vocab_size", vocabulary)
    if count == vocabulary:
        return {}
    ids = torch.linspace(2, vocabulary - 1, count).long()
    marked = torch.zeros(vocabulary, dtype=torch.bool)
    marked[ids] = True
    return {"d2t": ids - torch.arange(count), "t2d": marked}


def _shapes(config: dict[str, Any]) -> Shapes:
    if config["kind"] in BLOCKS:
        return block_shapes(config)
    if config["kind"] == "eagle3":
        return eagle3_shapes(config)
    kind, width = config["kind"], config["hidden_size"]
    shapes: Shapes = {}
    if kind == "vispec":
        shapes |= view_shapes(config, config.get("queries", 2))
    if kind in ("eagle", "msd", "vispec", "flash"):
        shapes |= fused_shapes(config)
    if kind == "flash" and config.get("queries"):
        shapes |= {"compressor.queries": (config["queries"], width)}
        shapes |= {"compressor.norm.weight": (width,)}
    if config.get("vision") == "mean":
        shapes |= {"vision.weight": (width, width)}
    for slot in range(config.get("slots", 0)):
        if kind == "medusa":
            shapes |= _linear(f"heads.{slot}.linear", width, width)
        elif kind == "hydra":
            shapes |= _linear(f"heads.{slot}.linear_1", width, width * (slot + 2))
            shapes |= _linear(f"heads.{slot}.linear_2", width, width)
        else:
            shapes |= _linear(f"slots.{slot}", width, width)
    return shapes


def fused_shapes(config: dict[str, Any]) -> Shapes:
    """The fusion of a token and a state, and the layer after it."""
    width = config["hidden_size"]
    return _linear("fc", width, 2 * width, bias=config.get("bias", True)) | _only_layer(config)


def view_shapes(config: dict[str, Any], count: int) -> Shapes:
    """ViSpec's `count` vectors of an image, and their fusion."""
    width, heads = config["hidden_size"], config["num_attention_heads"]
    shapes: Shapes = {"imadpt.q": (count, heads, width // heads)}
    for part in "kvo":
        biased = part != "o" and config.get("qkv_bias", False)
        shapes |= _linear(f"imadpt.{part}_proj", width, width, bias=biased)
    return shapes | _linear("img_fc", width, 2 * width, bias=config.get("bias", True))


def eagle3_shapes(config: dict[str, Any]) -> Shapes:
    """The tensors of an EAGLE-3 head."""
    width = config["hidden_size"]
    layers = len(config.get("eagle_aux_hidden_state_layer_ids") or CAPTURED)
    shapes = {"fc.weight": (width, layers * width), **_only_layer(config, rows=2)}
    if config.get("norm_before_fc"):
        shapes["input_norm.weight"] = (layers * width,)
    if config.get("fc_norm"):
        shapes |= {f"fc_norm.{index}.weight": (width,) for index in range(layers)}
    if config.get("qk_norm") or config.get("model_type") == "qwen3":
        size = config.get("head_dim", width // config["num_attention_heads"])
        shapes |= {f"layers.0.self_attn.{part}_norm.weight": (size,) for part in "qk"}
    shapes |= {f"layers.0.{name}.weight": (width,) for name in ("input_layernorm", "hidden_norm")}
    head = {"norm.weight": (width,), "lm_head.weight": (config["draft_vocab_size"], width)}
    return shapes | head


def block_shapes(config: dict[str, Any]) -> Shapes:
    """The tensors of a block drafter."""
    width, size, rank = config["hidden_size"], config["head_dim"], config.get("markov_rank", 0)
    vocabulary = config["vocab_size"]
    drafted = config.get("draft_vocab_size", vocabulary)
    ids = config.get("aux_hidden_state_layer_ids") or config.get("target_layer_ids", BLOCK_CAPTURED)
    attention, mlp = _layer(config)
    norms = dict.fromkeys(("input_layernorm", "post_attention_layernorm"), (width,))
    layer = norms | attention | {f"self_attn.{part}_norm": (size,) for part in "qk"} | mlp
    names: Shapes = {"fc": (width, len(ids) * width), "hidden_norm": (width,), "norm": (width,)}
    for index in range(config["num_hidden_layers"]):
        names |= {f"layers.{index}.{name}": shape for name, shape in layer.items()}
    if drafted < vocabulary:
        names["lm_head"] = (drafted, width)
    if rank:
        names["markov_head.markov_w1"] = (vocabulary, rank)
        names["markov_head.markov_w2"] = (drafted, rank)
    biased = {}
    if rank and config.get("markov_head_type") == "gated":
        biased["markov_head.gate_proj"] = (rank, width + rank)
    if rank and config.get("markov_head_type") == "rnn":
        biased["markov_head.joint_proj"] = (3 * rank, width + 2 * rank)
    if config.get("enable_confidence_head"):
        reads_both = config.get("confidence_head_with_markov", rank > 0)
        biased["confidence_head.proj"] = (1, width + (rank if reads_both else 0))
    biases = {f"{name}.bias": shape[:1] for name, shape in biased.items()}
    return {f"{name}.weight": shape for name, shape in (names | biased).items()} | biases


def _only_layer(config: dict[str, Any], rows: int = 1) -> Shapes:
    """The layer of a head of EAGLE's family."""
    (attention, mlp), width = _layer(config, rows), config["hidden_size"]
    names = attention | mlp | {"post_attention_layernorm": (width,)}
    shapes = {f"{name}.weight": shape for name, shape in names.items()}
    if config.get("qkv_bias"):
        shapes |= {f"{name}.bias": attention[name][:1] for name in [*attention][:3]}
    if config.get("kind") == "flash" or config.get("input_norm"):
        shapes["input_layernorm.weight"] = (width,)
    return {f"layers.0.{name}": shape for name, shape in shapes.items()}


def _layer(config: dict[str, Any], rows: int = 1) -> tuple[Shapes, Shapes]:
    """The matrices of attention, which reads so many rows side by side, and those of the MLP."""
    width, inner = config["hidden_size"], config["intermediate_size"]
    size = config.get("head_dim", width // config["num_attention_heads"])
    queries, keys = (size * config[f"num_{part}_heads"] for part in ("attention", "key_value"))
    outputs = {"q": queries, "k": keys, "v": keys}
    attention = {f"self_attn.{part}_proj": (out, rows * width) for part, out in outputs.items()}
    attention |= {"self_attn.o_proj": (width, queries)}
    mlp = {f"mlp.{part}_proj": (inner, width) for part in ("gate", "up")}
    return attention, mlp | {"mlp.down_proj": (width, inner)}


def _linear(path: str, outputs: int, inputs: int, *, bias: bool = True) -> Shapes:
    weight: Shapes = {f"{path}.weight": (outputs, inputs)}
    return weight | ({f"{path}.bias": (outputs,)} if bias else {})


def randomized(shapes: Shapes, seed: int) -> dict[str, Any]:
    """Random tensors of these names and shapes; norms are about one."""
    import torch

    draws = torch.Generator().manual_seed(seed)
    tensors = {}
    for name, shape in shapes.items():
        noise = torch.randn(shape, generator=draws)
        one = len(shape) == 1
        tensors[name] = 0.1 * noise + float("norm" in name) if one else noise * shape[1] ** -0.5
    return tensors


def written(
    path: Path, config: dict[str, Any], tensors: dict[str, Any], *, pickled: bool = False
) -> Path:
    """Write a head; returns `path`."""
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
