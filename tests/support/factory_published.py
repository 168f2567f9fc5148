"""Tiny random heads on disk as their authors publish them."""

from pathlib import Path
from typing import Any

from support.factory_heads import (
    BLOCK_CAPTURED,
    BLOCK_SIZES,
    CAPTURED,
    MASK,
    SIZES,
    VOCABULARY,
    WIDTH,
    block_shapes,
    eagle3_shapes,
    fused_shapes,
    randomized,
    view_shapes,
    vocabulary_maps,
    written,
)

EMBEDDING = {"embed_tokens.weight": (VOCABULARY, WIDTH)}


def published(
    path: Path, model_type: str, *, pickled: bool = False, views: int = 0, **given: Any
) -> Path:
    """Write a random head as EAGLE's and MSD's authors publish them, embedding included.

    views: as ViSpec's authors do, with so many vectors of an image.
    """
    config = _flat(model_type) | given
    shapes = EMBEDDING | fused_shapes(config) | (view_shapes(config, views) if views else {})
    return written(path, config, randomized(shapes, 7), pickled=pickled)


def _flat(model_type: str) -> dict[str, Any]:
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


def specforge(path: Path, **given: Any) -> Path:
    """Write a random EAGLE-3 head as SpecForge, AngelSlim and EAGLE's authors publish them."""
    config = _flat("llama") | {
        "architectures": ["LlamaForCausalLMEagle3"],
        "draft_vocab_size": 100,
        "eagle_config": {"eagle_aux_hidden_state_layer_ids": [layer - 1 for layer in CAPTURED]},
    }
    config |= given
    tensors = randomized(eagle3_shapes(config), 0) | vocabulary_maps(config)
    renamed = {name.replace("layers.0.", "midlayer."): one for name, one in tensors.items()}
    return written(path, config, renamed)


def z_lab(path: Path, *, seed: int = 0, nested: dict[str, Any] | None = None, **given: Any) -> Path:
    """Write a random drafter as DFlash's authors do: no embedding, no output matrix."""
    nested = {"mask_token_id": MASK, "target_layer_ids": BLOCK_CAPTURED} | (nested or {})
    config = BLOCK_SIZES | {
        "architectures": ["DFlashDraftModel"],
        "model_type": "qwen3",
        "hidden_act": "silu",
        "attention_bias": False,
        "block_size": 5,
        "num_target_layers": 2,
        "dflash_config": nested,
    }
    config |= given
    return written(path, config, randomized(block_shapes(config | nested), seed))


def deepspec(path: Path, *, seed: int = 0, **given: Any) -> Path:
    """Write a random drafter as DSpark's authors do, with frozen copies of the target's tensors."""
    config = BLOCK_SIZES | {
        "architectures": ["Qwen3DSparkModel"],
        "model_type": "qwen3",
        "layer_types": ["full_attention"] * 2,
        "sliding_window": None,
        "block_size": 5,
        "mask_token_id": MASK,
        "target_layer_ids": BLOCK_CAPTURED,
        "num_anchors": 512,
        "markov_rank": 8,
        "markov_head_type": "vanilla",
        "enable_confidence_head": True,
        "confidence_head_with_markov": True,
    }
    config |= given
    shapes = block_shapes(config) | EMBEDDING | {"lm_head.weight": (VOCABULARY, WIDTH)}
    return written(path, config, randomized(shapes, seed))


NAMES = {"eagle3": "Eagle3", "dflash": "DFlash", "dspark": "DSpark"}


def speculators(path: Path, kind: str = "eagle3", *, seed: int = 0, **given: Any) -> Path:
    """Write a random head as vLLM's speculators package does; EAGLE-3's has an embedding."""
    is_block = kind != "eagle3"
    layer = BLOCK_SIZES | {"model_type": "qwen3"}
    if not is_block:
        layer = SIZES | {"model_type": "llama", "num_hidden_layers": 1, "head_dim": 16}
        layer |= {"rope_theta": 10000.0, "tie_word_embeddings": False}
    layer |= {"hidden_act": "silu"} | given.pop("layer", {})
    proposal = {"proposal_type": "greedy", "speculative_tokens": 4 if is_block else 3}
    config = {
        "architectures": [f"{NAMES[kind]}Speculator"],
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
    if is_block:
        config |= {
            "draft_vocab_size": VOCABULARY,
            "block_size": 5,
            "mask_token_id": MASK,
            "aux_hidden_state_layer_ids": [layer + 1 for layer in BLOCK_CAPTURED],
            "sample_from_anchor": kind == "dspark",
        }
    else:
        config |= {"draft_vocab_size": 100, "eagle_aux_hidden_state_layer_ids": CAPTURED}
    if kind == "dspark":
        config |= {"markov_rank": 8, "markov_head_type": "vanilla"}
        config |= {"enable_confidence_head": True, "confidence_head_with_markov": True}
    sizes = layer | (config := config | given)
    tensors = randomized((block_shapes if is_block else eagle3_shapes)(sizes), seed)
    tensors |= vocabulary_maps(sizes) | ({} if is_block else randomized(EMBEDDING, seed))
    return written(path, config, tensors)
