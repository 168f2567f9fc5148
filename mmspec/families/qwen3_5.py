"""Qwen3.5: Qwen3-VL's tower without DeepStack, Gated DeltaNet, and gated attention in some layers.

Qwen3.6 and Qwen3.8 have the same `model_type`.
"""

from dataclasses import replace
from typing import Annotated

from mmspec.families.decoder import (
    DeltaNetConfig,
    Heads,
    TextConfig,
    Width,
    Window,
    interleaved_axes,
    read_sizes,
    rope_block,
)
from mmspec.families.family import text_family
from mmspec.families.qwen3_vl import Qwen3VLVision
from mmspec.families.qwen_vision import qwen_family
from mmspec.families.text_families import QWEN3_SIZES, QWEN_IMAGE
from mmspec.ground.json_file import Block, Length

DEFAULTS = replace(
    QWEN3_SIZES,
    intermediate_size=12288,
    num_attention_heads=16,
    num_key_value_heads=4,
    head_dim=256,
    vocab_size=248320,
    gated=True,
)
"""Transformers' sizes of a Qwen3.5 whose config names none."""
SECTIONS = (11, 11, 10)
"""Frequencies that turn by time, row and column if the config names none."""
SHARE = 0.25
"""The part of a head's features that turn if the config names none."""
KINDS = ("linear_attention", "full_attention")


def read_qwen3_5(text: Block) -> TextConfig:
    """Read a Qwen3.5 decoder's sizes."""
    config = read_sizes(text, DEFAULTS, partial=True)
    text.only("attn_output_gate", (True,), True)
    rope = rope_block(text)
    block = rope if rope.get("partial_rotary_factor") is not None else text
    rotary_dim = int(config.head_dim * block.number("partial_rotary_factor", SHARE, 0.0, 1.0))
    if rotary_dim < 2 or rotary_dim % 2:
        requirement = f"a part of {config.head_dim} that is even, 2 or more"
        raise block.error("partial_rotary_factor", requirement)
    axes = interleaved_axes(text, rotary_dim // 2, SECTIONS)
    delta_net = _delta_net(text, config.num_hidden_layers)
    return replace(config, rotary_axes=axes, rotary_dim=rotary_dim, delta_net=delta_net)


def _delta_net(text: Block, count: int) -> DeltaNetConfig:
    key_heads = text.read("linear_num_key_heads", Heads, 16)
    value_heads = text.read("linear_num_value_heads", Heads, 32)
    if value_heads % key_heads:
        raise text.error("linear_num_value_heads", f"a multiple of {key_heads}, the key heads")
    return DeltaNetConfig(
        layers=_layers(text, count),
        key_heads=key_heads,
        value_heads=value_heads,
        key_dim=text.read("linear_key_head_dim", Width, 128),
        value_dim=text.read("linear_value_head_dim", Width, 128),
        window=text.read("linear_conv_kernel_dim", Window, 4),
    )


def _layers(text: Block, count: int) -> tuple[int, ...]:
    """The numbers of the layers that are Gated DeltaNet."""
    interval = text.integer("full_attention_interval", 4, 1, 1000)
    regular = [KINDS[(layer + 1) % interval == 0] for layer in range(count)]
    kinds: list[str] = text.read("layer_types", Annotated[list[str], Length(count, count)], regular)
    if {*kinds} != {*KINDS}:
        raise text.error("layer_types", f"{' or '.join(KINDS)}, each of them once at least")
    return tuple(layer for layer, kind in enumerate(kinds) if kind == KINDS[0])


def _vision(vision: Block, text: TextConfig) -> Qwen3VLVision:
    return replace(Qwen3VLVision.read(vision, "qwen3_5", text), deepstack=())


QWEN3_5 = qwen_family("qwen3_5", "timed", read_qwen3_5, _vision, 248056, may_be_blind=True)
QWEN3_5_TEXT = text_family("qwen3_5_text", QWEN_IMAGE, read_qwen3_5)
