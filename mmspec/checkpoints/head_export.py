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

from mmspec.checkpoints.block_config import DFLASH_OPTIONS, SPECULATORS_LAYERS, BlockDraft
from mmspec.checkpoints.config import CONFIG_FILE, ModelConfig, read_config
from mmspec.checkpoints.eagle3_config import AUX_LAYERS, DRAFT_VOCABULARY, NORMS, SPECULATORS_TYPE
from mmspec.checkpoints.head_config import HeadConfig, read_head_config, require_fit
from mmspec.checkpoints.head_manifest import LAYER, MIDLAYER, plan_head, read_draft_ids
from mmspec.checkpoints.loading_plan import WEIGHTS_FILE
from mmspec.checkpoints.safetensors_file import Content, read_content, write_safetensors
from mmspec.families.decoder import TextConfig, describe_axes
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
    verifier_values = {"name_or_path": verifier, "architectures": architectures}
    content = _config_content(config, layer, model, layout, verifier_values)
    with new_directory(destination) as partial:
        write_safetensors(partial / WEIGHTS_FILE, contents)
        (partial / CONFIG_FILE).write_text(json.dumps(content, indent=2) + "\n")


def _require_exportable(
    config: HeadConfig, model: ModelConfig, layout: Layout, head: Path
) -> TextConfig:
    """The sizes of the head's layers; raises UsageError with what to train instead."""
    instead = "train --kind eagle3"
    if config.layer and config.block:
        _require_block(config.block, config.vocab_size, layout, head)
        return config.layer
    if config.layer is None or config.kind not in ("eagle", "eagle3"):
        raise UsageError(f"{head}: vLLM and SGLang run no such {config.kind} head: {instead}")
    reasons = {
        f": its queries, keys and values have biases: {instead}": config.layer.qkv_bias,
        f" is fed the images' features, which vLLM and SGLang give no draft: {instead}": (
            model.vision is not None and not config.apart
        ),
        ": speculators dropped EAGLE-1 after 0.3, and no engine norms its input: use --to sglang "
        f"for a head without an input norm, or {instead}": (
            config.kind == "eagle" and (layout == "speculators" or config.input_norm)
        ),
    }
    _refuse(head, reasons)
    return config.layer


def _require_block(options: BlockDraft, vocabulary: int, layout: Layout, head: Path) -> None:
    """Raise UsageError for what the layout's readers do not compute, with what they do."""
    sglang, from_anchor = layout == "sglang", options.sample_from_anchor
    dspark = options.kind == "dspark"
    reasons = {
        "it leaves images out of its context, which those engines do not": (
            not options.image_context
        ),
        "speculators' full layers see the whole block": not sglang and options.is_causal,
        f"{layout} computes another sliding window": (
            bool(options.layer_types) and options.window_before_block == sglang
        ),
        "SGLang's drafters draft every token": sglang and options.draft_vocab_size < vocabulary,
        "SGLang's DFlash predicts from the masks, its DSpark from the anchor": (
            sglang and from_anchor != dspark
        ),
        "SGLang's DSpark needs a Markov head": sglang and dspark and not options.markov_rank,
    }
    instead = f"train --kind {options.kind} with its defaults"
    _refuse(head, {f": {reason}: {instead}": holds for reason, holds in reasons.items()})


def _refuse(head: Path, reasons: dict[str, bool]) -> None:
    """Raise UsageError with the first of the reasons that holds."""
    for reason in (reason for reason, holds in reasons.items() if holds):
        raise UsageError(f"{head}{reason}")


def _contents(head: Path, config: HeadConfig, layout: Layout) -> dict[str, Content]:
    sources = plan_head(head, config)
    contents = {name: read_content(source.tensor) for name, source in sources.items()}
    if config.draft_vocab_size is None:
        return contents
    if config.eagle3 and layout == "sglang":
        contents = {name.replace(f"{LAYER}.", MIDLAYER): data for name, data in contents.items()}
    return contents | _maps(head, config, config.draft_vocab_size, layout)


def _maps(head: Path, config: HeadConfig, count: int, layout: Layout) -> dict[str, Content]:
    ids = read_draft_ids(head, config)
    if ids is None and (layout == "speculators" or config.block):
        return {}  # vLLM and speculators have no such tensors then, nor has any block drafter
    places = np.arange(count)
    target_ids = places if ids is None else np.array(ids)
    flags = np.zeros(config.vocab_size, np.bool_)
    flags[target_ids] = True
    d2t = (target_ids - places).astype("<i8")
    return {
        "d2t": Content("I64", d2t.shape, d2t.tobytes()),
        "t2d": Content("BOOL", flags.shape, flags.tobytes()),
    }


_MARKOV = (
    *("markov_rank", "markov_head_type"),
    *("enable_confidence_head", "confidence_head_with_markov"),
)
_BLOCK = ("block_size", "sample_from_anchor")
_OPTIONS = {
    "eagle": ("bias",),
    "eagle3": (DRAFT_VOCABULARY, *NORMS),
    "dflash": _BLOCK,
    "dspark": (*_BLOCK, *_MARKOV),
}
"""Options that change the forward, by kind; each is written, for engines' defaults differ."""
_ARCHITECTURES = {
    ("eagle", "sglang"): "LlamaForCausalLMEagle",
    ("eagle3", "sglang"): "LlamaForCausalLMEagle3",
    ("eagle3", "speculators"): "Eagle3Speculator",
    ("dflash", "sglang"): "DFlashDraftModel",
    ("dflash", "speculators"): "DFlashSpeculator",
    ("dspark", "sglang"): "Qwen3DSparkModel",
    ("dspark", "speculators"): "DSparkSpeculator",
}
_OWN_NAMES = ("qkv_bias", "qk_norm", "rotary_axes", "rotary_scaling")
"""Fields of a decoder's config that transformers has no key for."""
_WINDOW = ("layer_types", "sliding_window", "use_sliding_window")


def _config_content(
    config: HeadConfig,
    layer: TextConfig,
    model: ModelConfig,
    layout: Layout,
    verifier: dict[str, Any],
) -> dict[str, Any]:
    """The content of config.json; verifier: what it says of the target."""
    kind, block, head_options = config.kind, config.block, config.eagle3 or config.block
    values = head_options.to_config() if head_options else {"bias": config.bias}
    options = {name: values[name] for name in _OPTIONS[kind]}
    names = {"architectures": [_ARCHITECTURES[kind, layout]]}
    sizes = _sizes(layer)
    if block and block.layer_types:
        sizes |= {name: values[name] for name in _WINDOW}
    layers = config.captured_layers(model)
    if layout == "speculators":
        if block:
            options |= {name: values[name] for name in ("draft_vocab_size", "mask_token_id")}
        if block and block.layer_types:  # vLLM takes false as: no layer sees the whole block
            options["sliding_window_non_causal"] = block.sliding_window_non_causal
        return {
            **_speculators(kind, config.slots or SPECULATIVE_TOKENS, verifier),
            **(names | options),
            SPECULATORS_LAYERS if block else AUX_LAYERS: list(layers),
            "transformer_layer_config": sizes,
        }
    whole, before = names | sizes | options | {"dtype": config.dtype}, [at - 1 for at in layers]
    if config.eagle3:
        whole["eagle_config"] = {AUX_LAYERS: before, "use_aux_hidden_state": True}
    if block:
        whole["num_target_layers"] = model.text.num_hidden_layers
        if block.is_causal or block.sliding_window_non_causal:
            whole["is_causal"] = block.is_causal
        context = {"mask_token_id": block.mask_token_id, "target_layer_ids": before}
        whole |= context if kind == "dspark" else {DFLASH_OPTIONS: context}
    return whole


def _sizes(layer: TextConfig) -> dict[str, Any]:
    """The layer's sizes by transformers' names."""
    axes = layer.rotary_axes
    return {
        **{name: value for name, value in asdict(layer).items() if name not in _OWN_NAMES},
        **({"rope_scaling": describe_axes(axes)} if axes else {}),
        "model_type": "qwen3" if layer.qk_norm else "llama",
        "hidden_act": "silu",
        "attention_bias": False,
        "mlp_bias": False,
        "tie_word_embeddings": False,
    }


def _speculators(kind: str, tokens: int, verifier: dict[str, Any]) -> dict[str, Any]:
    """What speculators' configs of all kinds have; tokens: drafted in a round."""
    proposal = {
        "proposal_type": "greedy",
        "speculative_tokens": tokens,
        "verifier_accept_k": 1,
        "accept_tolerance": 0.0,
    }
    return {
        "speculators_version": "0.9.0",
        SPECULATORS_TYPE: kind,
        "speculators_config": {
            "algorithm": kind,
            "default_proposal_method": "greedy",
            "proposal_methods": [proposal],
            "verifier": verifier,
        },
    }
