"""Qwen3: a text decoder with norms of queries and keys, and the decoder of Qwen3-VL."""

from collections.abc import Sequence
from dataclasses import replace

from mmspec.families import qwen2
from mmspec.families.decoder import TextConfig, read_sizes
from mmspec.families.family import TextFamily
from mmspec.families.qwen_vision import IMAGE_TOKENS
from mmspec.ground.json_file import Block

DEFAULTS = replace(qwen2.DEFAULTS, qkv_bias=False, qk_norm=True)
"""Transformers' sizes of a Qwen3 whose config names none."""


def read_qwen3(
    text: Block, defaults: TextConfig, tied: bool, rope: Sequence[str] = ("default",)
) -> TextConfig:
    """Read a Qwen3 decoder's sizes; tied: true if its output head is its embedding.

    rope: as in `read_sizes`.
    """
    return read_sizes(text, qwen2.null_as_heads(text, defaults), tied, rope)


def _read_text(text: Block, tied: bool) -> TextConfig:
    text.only("use_sliding_window", (False,), False)
    return read_qwen3(text, DEFAULTS, tied)


QWEN3 = TextFamily("qwen3", IMAGE_TOKENS, _read_text)
