"""Tiny random block drafters on disk, in this project's layout and in the published ones.

Names and shapes are written out here, never taken from mmspec's manifests.
"""

from pathlib import Path
from typing import Any

WIDTH, VOCABULARY, LAYERS, MASK = 64, 320, 2, 5
CAPTURED = [0, 1]
"""The target's layers that a tiny drafter reads, counted from the first layer's output."""
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
BLOCK_SIZES = SIZES | {"num_hidden_layers": LAYERS, "num_key_value_heads": 2, "head_dim": 32}
BLOCK_SIZES |= {"rms_norm_eps": 1e-6, "rope_theta": 10000.0}
DSPARK = {"markov_rank": 8, "enable_confidence_head": True, "sample_from_anchor": True}


def block_config(kind: str, **given: Any) -> dict[str, Any]:
    """The config.json of a tiny block drafter in this project's layout."""
    own = {"model_type": "mmspec_head", "kind": kind, "block_size": 5, "mask_token_id": MASK}
    extra = DSPARK if kind == "dspark" else {}
    return BLOCK_SIZES | own | {"target_layer_ids": CAPTURED} | extra | given


def z_lab(path: Path, *, seed: int = 0, nested: dict[str, Any] | None = None, **given: Any) -> Path:
    """Write a random drafter as DFlash's authors do: no embedding, no output matrix."""
    config = BLOCK_SIZES | {
        "architectures": ["DFlashDraftModel"],
        "model_type": "qwen3",
        "hidden_act": "silu",
        "attention_bias": False,
        "block_size": 5,
        "num_target_layers": 2,
        "dflash_config": {"mask_token_id": MASK, "target_layer_ids": CAPTURED} | (nested or {}),
    }
    return _written(path, config | given, config | (nested or {}) | given, seed)


def deepspec(path: Path, *, seed: int = 0, **given: Any) -> Path:
    """Write a random drafter as DSpark's authors do, with frozen copies of the target's tensors."""
    config = BLOCK_SIZES | {
        "architectures": ["Qwen3DSparkModel"],
        "model_type": "qwen3",
        "layer_types": ["full_attention"] * 2,
        "sliding_window": None,
        "block_size": 5,
        "mask_token_id": MASK,
        "target_layer_ids": CAPTURED,
        "num_anchors": 512,
        "markov_rank": 8,
        "markov_head_type": "vanilla",
        "enable_confidence_head": True,
        "confidence_head_with_markov": True,
    }
    copies = dict.fromkeys(("embed_tokens.weight", "lm_head.weight"), (VOCABULARY, WIDTH))
    return _written(path, config | given, config | given, seed, copies)


def speculators_block(path: Path, kind: str, *, seed: int = 0, **given: Any) -> Path:
    """Write a random drafter as vLLM's speculators package does."""
    layer = BLOCK_SIZES | {"model_type": "qwen3", "hidden_act": "silu"} | given.pop("layer", {})
    anchored = kind == "dspark"
    name = {"dflash": "DFlashSpeculator", "dspark": "DSparkSpeculator"}[kind]
    config = speculators_config(kind, name, layer, 4) | {
        "draft_vocab_size": VOCABULARY,
        "block_size": 5,
        "mask_token_id": MASK,
        "aux_hidden_state_layer_ids": [layer + 1 for layer in CAPTURED],
        "sample_from_anchor": anchored,
    }
    if anchored:
        config |= {"markov_rank": 8, "markov_head_type": "vanilla"}
        config |= {"enable_confidence_head": True, "confidence_head_with_markov": True}
    config |= given
    return _written(path, config, layer | config, seed)


def speculators_config(kind: str, name: str, layer: Any, tokens: int) -> dict[str, Any]:
    """What vLLM's speculators package says of every kind; name: of its class."""
    proposal = {"proposal_type": "greedy", "speculative_tokens": tokens}
    return {
        "architectures": [name],
        "speculators_model_type": kind,
        "speculators_version": "0.9.0",
        "speculators_config": {
            "algorithm": kind,
            "default_proposal_method": "greedy",
            "proposal_methods": [proposal],
            "verifier": {"name_or_path": None, "architectures": ["LlamaForCausalLM"]},
        },
        "transformer_layer_config": layer,
        "torch_dtype": "float32",
    }


def _written(
    path: Path,
    config: dict[str, Any],
    sizes: dict[str, Any],
    seed: int,
    more: dict[str, tuple[int, ...]] | None = None,
) -> Path:
    from support import factory_heads  # which writes the drafters of this project's layout

    tensors = factory_heads.randomized(shapes(sizes) | (more or {}), seed)
    return factory_heads.written(path, config, tensors | factory_heads.vocabulary_maps(sizes))


def shapes(config: dict[str, Any]) -> dict[str, tuple[int, ...]]:
    """Name and shape of every tensor that a drafter of this config needs."""
    width, size, rank = config["hidden_size"], config["head_dim"], config.get("markov_rank", 0)
    inner, vocabulary = config["intermediate_size"], config["vocab_size"]
    drafted = config.get("draft_vocab_size", vocabulary)
    queries, keys = (size * config[f"num_{part}_heads"] for part in ("attention", "key_value"))
    ids = config.get("aux_hidden_state_layer_ids") or config.get("target_layer_ids", CAPTURED)
    layer = {
        "input_layernorm": (width,),
        "post_attention_layernorm": (width,),
        "self_attn.q_proj": (queries, width),
        "self_attn.k_proj": (keys, width),
        "self_attn.v_proj": (keys, width),
        "self_attn.o_proj": (width, queries),
        "self_attn.q_norm": (size,),
        "self_attn.k_norm": (size,),
        "mlp.gate_proj": (inner, width),
        "mlp.up_proj": (inner, width),
        "mlp.down_proj": (width, inner),
    }
    names: dict[str, tuple[int, ...]] = {
        "fc": (width, len(ids) * width),
        "hidden_norm": (width,),
        "norm": (width,),
    }
    for index in range(config["num_hidden_layers"]):
        names |= {f"layers.{index}.{name}": shape for name, shape in layer.items()}
    if drafted < vocabulary:
        names["lm_head"] = (drafted, width)
    if rank:
        names |= {"markov_head.markov_w1": (vocabulary, rank)}
        names |= {"markov_head.markov_w2": (drafted, rank)}
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
