"""The Llamas of drafts, as transformers builds them."""

from dataclasses import asdict

from transformers import LlamaConfig

from mmspec.families.decoder import LLAMA_3, TextConfig
from mmspec.ground.errors import UsageError
from mmspec_train.settings import LlamaShape

ATTENTION = "eager"
"""transformers' name of attention by plain matrix products.

In bfloat16 on a CPU this is several times as fast as fused attention.
"""


def llama_of_shape(shape: LlamaShape, vocabulary: int) -> TextConfig:
    """Return the config of a Llama with tied embeddings; UsageError if heads do not fit."""
    if shape.width % shape.heads or shape.width // shape.heads % 2:
        raise UsageError(
            f"{shape.width} columns cannot be divided among {shape.heads} heads: give a width "
            "that is an even multiple of the heads"
        )
    return TextConfig(
        hidden_size=shape.width,
        intermediate_size=shape.ffn,
        num_hidden_layers=shape.layers,
        num_attention_heads=shape.heads,
        num_key_value_heads=shape.heads,
        head_dim=shape.width // shape.heads,
        vocab_size=vocabulary,
        max_position_embeddings=shape.positions,
        rms_norm_eps=1e-6,
        rope_theta=10000.0,
        tie_word_embeddings=True,
    )


def llama_config(text: TextConfig) -> LlamaConfig:
    """Return the config as transformers' LlamaConfig."""
    sizes = asdict(text)
    scaling = sizes.pop("rotary_scaling")
    rope = {"rope_type": LLAMA_3, **scaling} if scaling else {"rope_type": "default"}
    rope["rope_theta"] = sizes.pop("rope_theta")
    return LlamaConfig(**sizes, rope_parameters=rope)
