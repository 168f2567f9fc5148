"""Llama, Qwen2 and Qwen3: text decoders, which are also those of LLaVA, Qwen2.5-VL and Qwen3-VL.

`rope`: as in `read_sizes`.
"""

from collections.abc import Sequence
from dataclasses import replace

from mmspec.families.decoder import LLAMA_3, Heads, TextConfig, divide_width, read_sizes
from mmspec.families.family import ImageTokens, text_family
from mmspec.ground.json_file import Block

LLAMA_SIZES = TextConfig(
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
QWEN2_SIZES = replace(
    LLAMA_SIZES,
    intermediate_size=22016,
    vocab_size=151936,
    max_position_embeddings=32768,
    qkv_bias=True,
)
"""Those of a Qwen2."""
QWEN3_SIZES = replace(QWEN2_SIZES, qkv_bias=False, qk_norm=True)
"""Those of a Qwen3."""
QWEN_IMAGE = ImageTokens("<|image_pad|>", "<|vision_start|>", "<|vision_end|>")


def read_llama(text: Block, rope: Sequence[str] = ("default", LLAMA_3)) -> TextConfig:
    """Read a Llama decoder's sizes."""
    sizes = divide_width(text, LLAMA_SIZES)
    sizes = replace(sizes, num_key_value_heads=sizes.num_attention_heads)
    return read_sizes(text, sizes, rope)


def read_qwen2(
    text: Block, defaults: TextConfig = QWEN2_SIZES, rope: Sequence[str] = ("default",)
) -> TextConfig:
    """Read a Qwen2 decoder's sizes."""
    text.only("use_sliding_window", (False,), False)
    return read_sizes(text, _null_as_heads(text, divide_width(text, defaults)), rope)


def read_qwen3(
    text: Block, defaults: TextConfig = QWEN3_SIZES, rope: Sequence[str] = ("default",)
) -> TextConfig:
    """Read a Qwen3 decoder's sizes."""
    return read_sizes(text, _null_as_heads(text, defaults), rope)


def _null_as_heads(text: Block, defaults: TextConfig) -> TextConfig:
    """`defaults` with as many key-value heads as heads if the config's number of them is null."""
    if text.values.get("num_key_value_heads", 1) is not None:
        return defaults
    heads = text.read("num_attention_heads", Heads, defaults.num_attention_heads)
    return replace(defaults, num_key_value_heads=heads)


def _read_qwen3_text(text: Block) -> TextConfig:
    text.only("use_sliding_window", (False,), False)
    return read_qwen3(text)


LLAMA = text_family("llama", ImageTokens("<image>"), read_llama, stop_tokens=(2,))
QWEN2 = text_family("qwen2", QWEN_IMAGE, read_qwen2)
QWEN3 = text_family("qwen3", QWEN_IMAGE, _read_qwen3_text)
