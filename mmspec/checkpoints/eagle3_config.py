"""Reads what an EAGLE-3 head's config.json says beyond its decoder layer, in three layouts.

    speculators   `speculators_model_type`, the layer's sizes in `transformer_layer_config`
    SpecForge     `draft_vocab_size` beside the layer's sizes; also AngelSlim's and EAGLE's own
    this project  `model_type` "mmspec_head" and `kind` "eagle3", otherwise as SpecForge's

Layers are counted by how many come before: layer 0 is the embedding, and the last layer's output is
that of N, as in speculators and vLLM. SGLang and SpecForge count from the first layer's output.
"""

from dataclasses import asdict, dataclass, replace
from typing import Annotated, Any

from mmspec.families.decoder import TextConfig, optional_axes
from mmspec.families.text_families import read_llama, read_qwen3
from mmspec.ground.json_file import Block, Length, Range

SPECULATORS_TYPE = "speculators_model_type"
"""Key that names the kind of a head in the layout of vLLM's speculators package."""
DRAFT_VOCABULARY = "draft_vocab_size"
AUX_LAYERS = "eagle_aux_hidden_state_layer_ids"
_EAGLE_OPTIONS = "eagle_config"
"""Key of the object in which SGLang's files have some options."""
NORMS = ("norm_before_residual", "norm_before_fc", "fc_norm", "norm_output")
ROPE = "default", "mrope"
"""Names of the kinds of rotary positions; the second turns them by time, row and column."""


@dataclass(frozen=True)
class Eagle3:
    """Which of the target's layers an EAGLE-3 head reads, its vocabulary, and its norms."""

    draft_vocab_size: int
    """Number of tokens that the head can draft; the target's vocabulary if it has all of them."""
    captured_layers: tuple[int, ...] = ()
    """The layers whose outputs are read, ascending; empty: those of `default_layers`."""
    norm_before_residual: bool = False
    """True if the layer's residual is the fused states after their norm, not before."""
    norm_before_fc: bool = False
    """True if one norm is applied to all captured states before they are fused."""
    fc_norm: bool = False
    """True if each captured layer's states have a norm of their own before they are fused."""
    norm_output: bool = False
    """True if the next drafted token reads the layer's output after the last norm."""

    @property
    def count(self) -> int:
        """The number of captured layers."""
        return len(self.captured_layers) or 3

    def layers(self, total: int) -> tuple[int, ...]:
        """The layers to capture of a target with `total` layers."""
        return self.captured_layers or default_layers(total)

    def to_config(self) -> dict[str, Any]:
        """The keys of a config.json from which `read_eagle3` reads these options."""
        values = asdict(self)
        return values | {AUX_LAYERS: list(values.pop("captured_layers"))}


def default_layers(total: int) -> tuple[int, ...]:
    """The layers that SpecForge, speculators and vLLM capture of a target with `total` layers."""
    return 2, total // 2, total - 3


def is_eagle3(whole: Block) -> bool:
    """True for a config of speculators' or SpecForge's layout."""
    return SPECULATORS_TYPE in whole.values or DRAFT_VOCABULARY in whole.values


def read_eagle3(whole: Block) -> tuple[Eagle3, TextConfig]:
    """The head's options and the sizes of its decoder layer.  Raises CheckpointError."""
    text = whole
    if SPECULATORS_TYPE in whole.values:
        whole.only(SPECULATORS_TYPE, ("eagle3",), None)
        text = whole.block("transformer_layer_config")
    text.only("num_hidden_layers", (1,), 1)
    text = text.with_values(num_hidden_layers=1)
    qwen3 = text.get("model_type") == "qwen3" or text.flag("qk_norm", False)
    layer = read_qwen3(text, rope=ROPE) if qwen3 else read_llama(text, ROPE)
    layer = with_axes(text, layer)
    whole.only("target_hidden_size", (layer.hidden_size,), layer.hidden_size)
    whole.only("embed_requires_grad", (False,), False)
    whole.only("image_embeddings", (False,), False)
    inner = whole.block(_EAGLE_OPTIONS)
    if whole.get(AUX_LAYERS) is None:
        layers = read_captured_layers(inner, AUX_LAYERS, 0, shift=1)
    else:
        layers = read_captured_layers(whole, AUX_LAYERS, 0)
    options = Eagle3(
        whole.integer(DRAFT_VOCABULARY, layer.vocab_size, 1, layer.vocab_size),
        layers,
        **{name: whole.flag(name, inner.flag(name, False)) for name in NORMS},
    )
    if options.norm_before_fc and options.fc_norm:
        raise whole.error("fc_norm", "false where norm_before_fc is true")
    return options, layer


def with_axes(text: Block, layers: TextConfig) -> TextConfig:
    """`layers` with the axes of rotary positions that the config `text` names, if any."""
    return replace(layers, rotary_axes=optional_axes(text, layers.head_dim))


def read_captured_layers(block: Block, key: str, least: int, shift: int = 0) -> tuple[int, ...]:
    """The layers of the target that a head reads, `least` at least, after adding `shift`."""
    kind = Annotated[tuple[Annotated[int, Range(-1, 1000)], ...], Length(least, 64)]
    ids: tuple[int, ...] = block.read(key, kind, [])
    if list(ids) != sorted(set(ids)):
        raise block.error(key, "a list of layers in ascending order")
    return tuple(index + shift for index in ids)
