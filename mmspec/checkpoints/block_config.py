"""Reads what a block drafter's config.json says beyond its decoder layers, in four layouts.

    speculators   `speculators_model_type`, the layers' sizes in `transformer_layer_config`
    z-lab         options in `dflash_config`, beside the layers' sizes
    DeepSpec      options and sizes side by side; its architecture is called DSpark's
    this project  `model_type` "mmspec_head" and `kind`, otherwise as DeepSpec's

Captured layers are counted by how many come before, as in speculators: layer 0 is the embedding.
z-lab and DeepSpec count from the first layer's output.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Annotated, Any

from mmspec.checkpoints.eagle3_config import ROPE, SPECULATORS_TYPE, read_captured_layers, with_axes
from mmspec.families.decoder import TextConfig
from mmspec.families.text_families import QWEN3_SIZES, read_qwen3
from mmspec.ground.json_file import Block, Length

BLOCK_KINDS = ("dflash", "dspark")
"""DSpark is DFlash and a Markov head, a confidence head or both."""
MARKOV_HEADS = ("vanilla", "gated", "rnn")
SLIDING, FULL = "sliding_attention", "full_attention"
SPECULATORS_LAYERS = "aux_hidden_state_layer_ids"
DFLASH_OPTIONS = "dflash_config"
"""Key of the object in which z-lab's files have options; some of them may be beside it."""
MOST_ROWS, MOST_RANK = 1000, 100_000
_WITHOUT_NETWORK = {
    "rope_is_neox_style": True,
    "attention_sink_bias": False,
    "dspark_bonus_anchor": False,
    "embed_requires_grad": False,
    "input_embedding_scale": 1.0,
    "output_multiplier": 1.0,
    "final_logit_softcapping": 0.0,
}
"""Options that no network here computes, with the only value that changes nothing."""
_Names = Annotated[tuple[str, ...], Length(0, 1000)]


@dataclass(frozen=True)
class BlockDraft:
    """What a block drafter reads of its target, and the form of its block; names as in files."""

    draft_vocab_size: int
    """Number of tokens that the head can draft."""
    captured_layers: tuple[int, ...]
    """The target's layers whose outputs are its context, ascending."""
    block_size: int
    """B, the rows of the block that it was trained with: the newest token, then masks."""
    mask_token_id: int
    sample_from_anchor: bool
    """True if a row predicts the token after its own place, else the token at it."""
    layer_types: tuple[str, ...] = ()
    """SLIDING or FULL for each layer; empty if all are full."""
    sliding_window: int = 0
    """Columns that a sliding layer sees; 0 if there is none."""
    window_before_block: bool = False
    """True if all rows see the same window, which ends at the block; else it moves with the row."""
    is_causal: bool = False
    """True if no row sees the rows after it."""
    sliding_window_non_causal: bool = False
    """True if the rows of sliding layers see those after them."""
    image_context: bool = True
    """True if the states of image positions are part of the context."""
    markov_rank: int = 0
    """Width of the Markov head's embedding; 0 if there is no such head."""
    markov_head_type: str = MARKOV_HEADS[0]
    enable_confidence_head: bool = False
    confidence_head_with_markov: bool = False
    """True if the confidence head also reads the Markov head's embedding."""

    @property
    def kind(self) -> str:
        """One of BLOCK_KINDS."""
        return BLOCK_KINDS[self.markov_rank > 0 or self.enable_confidence_head]

    @property
    def slots(self) -> int:
        """The most tokens that the head can draft."""
        return self.block_size - self.rows_for(0)

    def rows_for(self, tokens: int) -> int:
        """The number of rows that draft this many tokens."""
        return tokens if self.sample_from_anchor else tokens + 1

    def to_config(self) -> dict[str, Any]:
        """The keys of this project's config.json from which `read_block` reads these options."""
        values = asdict(self)
        values["target_layer_ids"] = [layer - 1 for layer in values.pop("captured_layers")]
        return values | {"use_sliding_window": bool(self.layer_types)}


def is_block(whole: Block) -> bool:
    """True for a published config of a block drafter."""
    is_named = whole.get(SPECULATORS_TYPE) in BLOCK_KINDS or _architecture(whole)
    return is_named or DFLASH_OPTIONS in whole.values


def read_block(whole: Block) -> tuple[BlockDraft, TextConfig]:
    """The head's options and the sizes of its decoder layers.  Raises CheckpointError."""
    is_speculators = SPECULATORS_TYPE in whole.values
    text = whole.block("transformer_layer_config") if is_speculators else whole
    if is_speculators:
        whole.only(SPECULATORS_TYPE, BLOCK_KINDS, None)
    inner = whole.block(DFLASH_OPTIONS)
    flat = whole.with_values(**inner.values)
    for key, only in _WITHOUT_NETWORK.items():
        flat.only(key, (only,), only)
    layers = with_axes(text, read_qwen3(text, rope=ROPE))
    whole.only("target_hidden_size", (layers.hidden_size,), layers.hidden_size)
    dspark = _is_dspark(flat)
    from_anchor = flat.flag("sample_from_anchor", dspark)
    rank = flat.integer("markov_rank", 256 if dspark and is_speculators else 0, 0, MOST_RANK)
    confidence = flat.flag("enable_confidence_head", dspark and is_speculators)
    key, shift = (SPECULATORS_LAYERS, 0) if is_speculators else ("target_layer_ids", 1)
    options = BlockDraft(
        flat.integer("draft_vocab_size", layers.vocab_size, 1, layers.vocab_size),
        read_captured_layers(flat, key, 1, shift),
        flat.integer("block_size", 16, 1 if from_anchor else 2, MOST_ROWS),
        flat.integer("mask_token_id", -1, 0, layers.vocab_size - 1),
        from_anchor,
        image_context=flat.flag("image_context", True),
        markov_rank=rank,
        markov_head_type=flat.only("markov_head_type", MARKOV_HEADS, MARKOV_HEADS[0]),
        enable_confidence_head=confidence,
        confidence_head_with_markov=flat.flag("confidence_head_with_markov", rank > 0),
        **_sight(text, flat, before_block=is_speculators),
    )
    if options.confidence_head_with_markov and confidence and not rank:
        raise flat.error("confidence_head_with_markov", "false where markov_rank is 0")
    return options, layers


def _is_dspark(flat: Block) -> bool:
    """True for the form in which each row predicts the token after its place, unless it says so."""
    is_named = flat.get(SPECULATORS_TYPE) == "dspark" or flat.get("projector_type") == "dspark"
    return is_named or _architecture(flat) or flat.get("kind") == "dspark"


def _architecture(whole: Block) -> bool:
    names: Sequence[str] = whole.read("architectures", _Names, [])
    return any("DSpark" in name for name in names)


def _sight(text: Block, flat: Block, *, before_block: bool) -> dict[str, Any]:
    """Which columns and rows the layers see, as fields of `BlockDraft`."""
    count = text.integer("num_hidden_layers", QWEN3_SIZES.num_hidden_layers, 1, 1000)
    types: tuple[str, ...] = text.read("layer_types", _Names, [])
    if types and (len(types) != count or not {*types} <= {SLIDING, FULL}):
        raise text.error("layer_types", f"{count} times {SLIDING} or {FULL}")
    slides = SLIDING in types
    if slides:  # transformers' Qwen3 drops the window otherwise
        text.only("use_sliding_window", (True,), None)
    key = "sliding_window" if flat.get("swa_window_size") is None else "swa_window_size"
    window = text.with_values(**(flat.values | text.values))
    causal = flat.get("is_causal", flat.get("causal"))
    if causal not in (None, True, False):
        raise flat.error("is_causal", "true, false or null")
    return {
        "layer_types": types if slides else (),
        "sliding_window": window.integer(key, 0, 1, 10**9) if slides else 0,
        "window_before_block": slides and flat.flag("window_before_block", before_block),
        "is_causal": bool(causal),
        "sliding_window_non_causal": slides
        and flat.flag("sliding_window_non_causal", causal is False),
    }
