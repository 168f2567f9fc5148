"""Qwen2: a text decoder with biases of queries, keys and values, and that of Qwen2.5-VL."""

from dataclasses import replace

from mmspec.families.decoder import Heads, TextConfig, divided_width, read_sizes
from mmspec.families.family import Architecture
from mmspec.families.mrope import chunked_axes, rope_block
from mmspec.families.qwen_vision import IMAGE_TOKENS
from mmspec.families.tensors import Prefixes
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


class Qwen2:
    """Implements `mmspec.families.family.Family`."""

    model_type = "qwen2"
    image_tokens = IMAGE_TOKENS
    convolution = ""
    stored_prefixes: Prefixes = (("model.", "language_model."),)
    hub_prefixes: Prefixes = (("language_model.", "model."),)

    def read(self, whole: Block) -> Architecture:
        """Read config.json.  Raises CheckpointError."""
        tied = whole.flag("tie_word_embeddings", False)
        return Architecture(whole, _read(whole, DEFAULTS, tied, ("default",)))


def read_qwen2_vl(text: Block, defaults: TextConfig, tied: bool) -> TextConfig:
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
