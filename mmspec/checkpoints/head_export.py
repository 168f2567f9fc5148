"""Writes EAGLE, EAGLE-3 and block drafters as other engines read them.

    speculators   vLLM's package: `layers.0.…`, the layer's sizes in an object, layers counted from
                  the embedding; no vocabulary map where the head drafts every token
    sglang        SGLang, SpecForge, and EAGLE's own files: `midlayer.…`, sizes side by side, layers
                  counted from the first output; always a vocabulary map

Tensors keep their bytes. Those engines feed a head no image features.
"""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any, Literal

import numpy as np

from mmspec.checkpoints.block_export import described_block, require_exportable
from mmspec.checkpoints.config import CONFIG_FILE, ModelConfig, read_config
from mmspec.checkpoints.eagle3_config import CAPTURED, DRAFT_VOCABULARY, SPECULATORS_TYPE, Eagle3
from mmspec.checkpoints.head_config import HeadConfig, read_head_config, require_fit
from mmspec.checkpoints.head_manifest import LAYER, MIDLAYER, plan_head, read_draft_ids
from mmspec.checkpoints.loading_plan import WEIGHTS_FILE
from mmspec.checkpoints.safetensors_file import Content, stored_content, write_safetensors
from mmspec.families.decoder import TextConfig
from mmspec.families.mrope import described_axes
from mmspec.ground.errors import UsageError
from mmspec.ground.json_file import read_json
from mmspec.ground.output_files import new_directory

Layout = Literal["speculators", "sglang"]
LAYOUTS: tuple[Layout, ...] = ("speculators", "sglang")
SPECULATIVE_TOKENS = 3
"""Drafted tokens a round that an exported config proposes."""


def export_head(head: Path, target: Path, layout: Layout, destination: Path, verifier: str) -> None:
    """Write the head in `head` to `destination`, for the target in the directory `target`.

    verifier: the target's name or path in the config.  Raises CheckpointError for files that are
    no head, UsageError for a head that no such engine can run, WriteError if the disk refuses.
    """
    config, model = read_head_config(head), read_config(target)
    require_fit(config, model, head)
    layer = _require_exportable(config, model, layout, head)
    if destination.exists() and any(destination.iterdir()):
        raise UsageError(f"{destination} is not empty: give a new directory")
    contents = _contents(head, config, layout)
    architectures = read_json(target / CONFIG_FILE).get("architectures") or []
    verified = {"name_or_path": verifier, "architectures": architectures}
    if config.block:
        sizes = _sizes(layer) | {"num_hidden_layers": layer.num_hidden_layers}
        named = _speculators(config.kind, config.slots, verified)
        rest = named if layout == "speculators" else {"dtype": config.dtype}
        total = model.text.num_hidden_layers
        described = described_block(config.block, layout, sizes, total, rest)
    elif config.eagle3 is None:
        described = _described_eagle(config, layer)
    elif layout == "sglang":
        described = _described_sglang(config, config.eagle3, layer, config.captured(model))
    else:
        described = _described_speculators(config.eagle3, layer, config.captured(model), verified)
    with new_directory(destination) as partial:
        write_safetensors(partial / WEIGHTS_FILE, contents)
        (partial / CONFIG_FILE).write_text(json.dumps(described, indent=2) + "\n")


def _require_exportable(
    config: HeadConfig, model: ModelConfig, layout: Layout, head: Path
) -> TextConfig:
    """The sizes of the head's layer; raises UsageError with what to train instead."""
    instead = "train --kind eagle3 without --image-embeddings"
    if config.layer and config.block:
        require_exportable(config.block, config.vocab_size, layout, head)
        return config.layer
    if config.layer is None or config.kind not in ("eagle", "eagle3"):
        raise UsageError(f"{head}: vLLM and SGLang run no such {config.kind} head: {instead}")
    if config.layer.qkv_bias:
        raise UsageError(f"{head}: its queries, keys and values have biases: {instead}")
    sees = model.vision is not None and not config.apart
    if sees:
        raise UsageError(
            f"{head} is fed the images' features, which vLLM and SGLang give no draft: {instead}"
        )
    if config.kind == "eagle" and (layout == "speculators" or config.input_norm):
        raise UsageError(
            f"{head}: speculators dropped EAGLE-1 after 0.3, and no engine norms its input: use "
            f"--to sglang for a head without an input norm, or {instead}"
        )
    return config.layer


def _contents(head: Path, config: HeadConfig, layout: Layout) -> dict[str, Content]:
    sources = plan_head(head, config)
    contents = {name: stored_content(source.stored) for name, source in sources.items()}
    if config.draft_vocab_size is None:
        return contents
    if config.eagle3 and layout == "sglang":
        contents = {name.replace(f"{LAYER}.", MIDLAYER): one for name, one in contents.items()}
    return contents | _maps(head, config, config.draft_vocab_size, layout)


def _maps(head: Path, config: HeadConfig, drafted: int, layout: Layout) -> dict[str, Content]:
    ids = read_draft_ids(head, config)
    if ids is None and (layout == "speculators" or config.block):
        return {}  # vLLM and speculators have no such tensors then, nor has any block drafter
    count = np.arange(drafted)
    chosen = count if ids is None else np.array(ids)
    marked = np.zeros(config.vocab_size, np.bool_)
    marked[chosen] = True
    d2t = (chosen - count).astype("<i8")
    return {
        "d2t": Content("I64", d2t.shape, d2t.tobytes()),
        "t2d": Content("BOOL", marked.shape, marked.tobytes()),
    }


def _sizes(layer: TextConfig) -> dict[str, Any]:
    """The layer's sizes by transformers' names."""
    axes = layer.rotary_axes
    return {
        **{name: value for name, value in asdict(layer).items() if name not in _OWN_NAMES},
        **({"rope_scaling": described_axes(axes)} if axes else {}),
        "model_type": "qwen3" if layer.qk_norm else "llama",
        "num_hidden_layers": 1,
        "hidden_act": "silu",
        "attention_bias": False,
        "mlp_bias": False,
        "tie_word_embeddings": False,
    }


_OWN_NAMES = ("qkv_bias", "qk_norm", "rotary_axes", "rotary_scaling")
"""Fields of a decoder's config that transformers has no key for."""


def _norms(options: Eagle3) -> dict[str, bool]:
    """The options that change the forward; each is written, for engines' defaults differ."""
    names = ("norm_before_residual", "norm_before_fc", "fc_norm", "norm_output")
    return {name: value for name, value in asdict(options).items() if name in names}


def _described_speculators(
    options: Eagle3, layer: TextConfig, captured: tuple[int, ...], verified: dict[str, Any]
) -> dict[str, Any]:
    return {
        **_speculators("eagle3", SPECULATIVE_TOKENS, verified),
        "architectures": ["Eagle3Speculator"],
        SPECULATORS_TYPE: "eagle3",
        DRAFT_VOCABULARY: options.draft_vocab_size,
        CAPTURED: list(captured),
        **_norms(options),
        "transformer_layer_config": _sizes(layer),
    }


def _speculators(kind: str, tokens: int, verified: dict[str, Any]) -> dict[str, Any]:
    """What speculators' configs of all kinds have; tokens: drafted in a round."""
    proposal = {
        "proposal_type": "greedy",
        "speculative_tokens": tokens,
        "verifier_accept_k": 1,
        "accept_tolerance": 0.0,
    }
    return {
        "speculators_version": "0.9.0",
        "speculators_config": {
            "algorithm": kind,
            "default_proposal_method": "greedy",
            "proposal_methods": [proposal],
            "verifier": verified,
        },
    }


def _described_sglang(
    config: HeadConfig, options: Eagle3, layer: TextConfig, captured: tuple[int, ...]
) -> dict[str, Any]:
    ids = [before - 1 for before in captured]
    return {
        "architectures": ["LlamaForCausalLMEagle3"],
        **_sizes(layer),
        "dtype": config.dtype,
        DRAFT_VOCABULARY: options.draft_vocab_size,
        **_norms(options),
        "eagle_config": {CAPTURED: ids, "use_aux_hidden_state": True},
    }


def _described_eagle(config: HeadConfig, layer: TextConfig) -> dict[str, Any]:
    names = {"architectures": ["LlamaForCausalLMEagle"], "bias": config.bias}
    return names | _sizes(layer) | {"dtype": config.dtype}
