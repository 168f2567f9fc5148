"""Says a block drafter's config as other engines read it.

speculators   vLLM's package: options beside the layers' sizes, which are an object
sglang        SGLang: DFlash as its authors publish it, DSpark as DeepSpec does
"""

from pathlib import Path
from typing import Any

from mmspec.checkpoints.block_config import (
    NESTED,
    SPECULATORS_CAPTURED,
    SPECULATORS_TYPE,
    BlockDraft,
)
from mmspec.ground.errors import UsageError

_MARKOV = (
    "markov_rank",
    "markov_head_type",
    "enable_confidence_head",
    "confidence_head_with_markov",
)


def require_exportable(options: BlockDraft, vocabulary: int, layout: str, head: Path) -> None:
    """Raise UsageError for what the layout's readers do not compute, with what they do."""
    named, anchored = layout == "speculators", options.sample_from_anchor
    windows = bool(options.layer_types) and options.window_before_block != named
    reasons = {
        "it leaves images out of its context, which those engines do not": (
            not options.image_context
        ),
        "speculators' full layers see the whole block": named and options.is_causal,
        f"{layout} computes another sliding window": windows,
        "SGLang's drafters draft every token": not named and options.draft_vocab_size < vocabulary,
        "SGLang's DFlash predicts from the masks, its DSpark from the anchor": (
            not named and anchored != (options.kind == "dspark")
        ),
        "SGLang's DSpark needs a Markov head": (
            not named and options.kind == "dspark" and not options.markov_rank
        ),
    }
    for reason in (reason for reason, holds in reasons.items() if holds):
        raise UsageError(f"{head}: {reason}: train --kind {options.kind} with its defaults")


def described_block(
    options: BlockDraft, layout: str, sizes: dict[str, Any], layers: int, config: dict[str, Any]
) -> dict[str, Any]:
    """The content of config.json.

    sizes: of the decoder layers, by transformers' names.  layers: those of the target.  config: the
    layout's keys that do not depend on the kind.
    """
    values, kind = options.described(), options.kind
    if options.layer_types:
        names = ("layer_types", "sliding_window", "use_sliding_window")
        sizes = sizes | {name: values[name] for name in names}
    markov = {name: values[name] for name in _MARKOV} if kind == "dspark" else {}
    block = {name: values[name] for name in ("block_size", "sample_from_anchor")}
    mask = {"mask_token_id": options.mask_token_id}
    if layout == "speculators":
        own = ("draft_vocab_size", "sliding_window_non_causal")
        return {
            **config,
            "architectures": [{"dflash": "DFlashSpeculator", "dspark": "DSparkSpeculator"}[kind]],
            SPECULATORS_TYPE: kind,
            **{name: values[name] for name in own},
            **(block | mask | markov),
            SPECULATORS_CAPTURED: list(options.captured),
            "transformer_layer_config": sizes,
        }
    captured = {"target_layer_ids": values["target_layer_ids"]}
    rest = {**config, **sizes, "num_target_layers": layers, **block}
    if options.is_causal or options.sliding_window_non_causal:
        rest["is_causal"] = options.is_causal
    if kind == "dspark":
        return rest | {"architectures": ["Qwen3DSparkModel"]} | mask | captured | markov
    return rest | {"architectures": ["DFlashDraftModel"], NESTED: mask | captured}
