"""Qwen2: a text decoder with biases of queries, keys and values, and that of Qwen2.5-VL."""

from dataclasses import replace

from mmspec.families.decoder import Heads, TextConfig, divided_width, read_sizes
from mmspec.families.family import TextFamily
from mmspec.families.mrope import chunked_axes, rope_block
from mmspec.families.qwen_vision import IMAGE_TOKENS
from mmspec.ground.json_file import Block

DEFAULTS = TextConfig(
    hidden_size=4096,
    intermediate_size=22016,
    num_hidden_layers=32,
    num_attention_heads=32,
    num_key_value_heads=32,
    head_dim=128,
    vocab_size=151936,
    max_position_embeddings=32768,
    rms_norm_eps=1e-6,
    rope_theta=10000.0,
    tie_word_embeddings=False,
    qkv_bias=True,
)
"""Transformers' sizes of a Qwen2 whose config names none."""

SECTIONS = (16, 24, 24)
"""Frequencies that turn by time, row and column if the config names none."""


def read_qwen2_vl(text: Block, tied: bool, defaults: TextConfig) -> TextConfig:
    """Read a Qwen2 decoder with chunked M-RoPE; tied: true if its output head is its embedding."""
    rope = rope_block(text)
    config = _read(text, defaults, tied, ("default", "mrope"))
    return replace(config, rotary_axes=chunked_axes(rope, config.head_dim, SECTIONS))


def null_as_heads(text: Block, defaults: TextConfig) -> TextConfig:
    """`defaults` with as many key-value heads as heads if the config's number of them is null."""
    if text.values.get("num_key_value_heads", 1) is not None:
        return defaults
    heads = text.read("num_attention_heads", Heads, defaults.num_attention_heads)
    return replace(defaults, num_key_value_heads=heads)


def _read(text: Block, defaults: TextConfig, tied: bool, rope: tuple[str, ...]) -> TextConfig:
    text.only("use_sliding_window", (False,), False)
    return read_sizes(text, null_as_heads(text, divided_width(text, defaults)), tied, rope)


def _read_text(text: Block, tied: bool) -> TextConfig:
    return _read(text, DEFAULTS, tied, ("default",))


QWEN2 = TextFamily("qwen2", IMAGE_TOKENS, _read_text)
