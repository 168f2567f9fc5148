"""Llama: a decoder without eyes, and the decoder of LLaVA."""

from collections.abc import Sequence
from dataclasses import replace

from mmspec.families.decoder import LLAMA_3, TextConfig, divided_width, read_sizes
from mmspec.families.family import ImageTokens, TextFamily
from mmspec.ground.json_file import Block

DEFAULTS = TextConfig(
    hidden_size=4096,
    intermediate_size=11008,
    num_hidden_layers=32,
    num_attention_heads=32,
    num_key_value_heads=32,
    head_dim=128,
    vocab_size=32000,
    max_position_embeddings=2048,
    rms_norm_eps=1e-6,
    rope_theta=10000.0,
    tie_word_embeddings=False,
)
"""Transformers' sizes of a Llama whose config names none."""


def read_llama(text: Block, tied: bool, rope: Sequence[str] = ("default", LLAMA_3)) -> TextConfig:
    """Read a Llama decoder's sizes; tied: true if its output head is its embedding.

    rope: as in `read_sizes`.
    """
    sizes = divided_width(text, DEFAULTS)
    sizes = replace(sizes, num_key_value_heads=sizes.num_attention_heads)
    return read_sizes(text, sizes, tied, rope)


LLAMA = TextFamily("llama", ImageTokens("<image>"), read_llama)
