"""Qwen3: a text decoder with norms of queries and keys, and the decoder of Qwen3-VL."""

from collections.abc import Sequence
from dataclasses import replace

from mmspec.checkpoints.json_file import Block
from mmspec.families.decoder import Heads, TextConfig, read_sizes
from mmspec.families.family import Architecture
from mmspec.families.qwen_vision import IMAGE_TOKENS
from mmspec.families.tensors import Prefixes

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
    qk_norm=True,
)
"""Transformers' sizes of a Qwen3 whose config names none."""


class Qwen3:
    """Implements `mmspec.families.family.Family`."""

    model_type = "qwen3"
    image_tokens = IMAGE_TOKENS
    convolution = ""
    stored_prefixes: Prefixes = (("model.", "language_model."),)
    hub_prefixes: Prefixes = (("language_model.", "model."),)

    def read(self, whole: Block) -> Architecture:
        """Read config.json.  Raises CheckpointError."""
        whole.only("use_sliding_window", (False,), False)
        tied = whole.flag("tie_word_embeddings", False)
        return Architecture(whole, read_qwen3(whole, DEFAULTS, tied))


def read_qwen3(
    text: Block, defaults: TextConfig, tied: bool, rope: Sequence[str] = ("default",)
) -> TextConfig:
    """Read a Qwen3 decoder's sizes; tied: true if its output head is its embedding.

    rope: as in `read_sizes`.
    """
    # Absent, transformers takes its own number of key-value heads; null, as many as heads.
    if text.values.get("num_key_value_heads", 1) is None:
        heads = text.read("num_attention_heads", Heads, defaults.num_attention_heads)
        defaults = replace(defaults, num_key_value_heads=heads)
    return read_sizes(text, defaults, tied, rope)
