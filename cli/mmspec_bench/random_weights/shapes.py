"""The sizes of published checkpoints, as in their config.json, and of small ones."""

from dataclasses import dataclass
from typing import Any

Config = dict[str, Any]


def _sized(
    base: Config, hidden: int, intermediate: int, heads: int, layers: int, **others: Any
) -> Config:
    sizes = {"hidden_size": hidden, "intermediate_size": intermediate}
    return base | sizes | {"num_attention_heads": heads, "num_hidden_layers": layers} | others


_CLIP: Config = {"model_type": "clip_vision_model", "projection_dim": 768, "vocab_size": 32000}
CLIP_LARGE = _sized(_CLIP, 1024, 4096, 16, 24, image_size=336, patch_size=14)
VICUNA_7B: Config = {
    "_name_or_path": "lmsys/vicuna-7b-v1.5",
    "max_position_embeddings": 4096,
    "model_type": "llama",
    "rms_norm_eps": 1e-05,
    "torch_dtype": "float16",
    "vocab_size": 32064,
}
"""Config without sizes, as in the hub's file; the defaults are Llama-7B's."""
VICUNA_13B = _sized(
    VICUNA_7B | {"_name_or_path": "lmsys/vicuna-13b-v1.5"},
    *(5120, 13824, 40, 40),
    num_key_value_heads=40,
)
_LLAMA: Config = {
    "architectures": ["LlamaForCausalLM"],
    "eos_token_id": 2,
    "hidden_act": "silu",
    "max_position_embeddings": 2048,
    "model_type": "llama",
    "rms_norm_eps": 1e-06,
    "tie_word_embeddings": False,
    "torch_dtype": "float32",
    "vocab_size": 32000,
}
LLAMA_68M = _sized(_LLAMA, 768, 3072, 12, 2)
DRAFT_68M = LLAMA_68M | {"vocab_size": 32064}
DRAFT_160M = DRAFT_68M | {"num_hidden_layers": 12}


def llava(
    text: Config, dtype: str = "float16", *, vision: Config = CLIP_LARGE, image: int = 32000
) -> Config:
    """A LLaVA-1.5 config as in the hub's files; `image` is the image token's id."""
    return {
        "architectures": ["LlavaForConditionalGeneration"],
        "image_token_index": image,
        "model_type": "llava",
        "pad_token_id": image + 1,
        "projector_hidden_act": "gelu",
        "text_config": text,
        "tie_word_embeddings": False,
        "torch_dtype": dtype,
        "vision_config": vision,
        "vision_feature_layer": -2,
        "vision_feature_select_strategy": "default",
        "vocab_size": text["vocab_size"],
    }


@dataclass(frozen=True, slots=True)
class Shape:
    """A target and its draft model; its head has the sizes of one of its layers."""

    target: Config
    draft: Config


def _shape(target: Config, draft: Config, **others: Any) -> Shape:
    return Shape(llava(target, "bfloat16", **others), llava(draft, "bfloat16", **others))


_SMALL = VICUNA_7B | {"_name_or_path": ""}

SHAPES = {
    "llava-1.5-7b": _shape(VICUNA_7B, DRAFT_68M),
    "llava-1.5-13b": _shape(VICUNA_13B, DRAFT_68M),
    "mini": _shape(
        _sized(_SMALL, 256, 768, 4, 11, max_position_embeddings=2048, vocab_size=1024),
        _sized(_SMALL, 128, 384, 2, 2, max_position_embeddings=2048, vocab_size=1024),
        vision=_sized(_CLIP, 192, 768, 3, 4, image_size=144, patch_size=12),
        image=1000,
    ),
    "tiny": _shape(
        _sized(_SMALL, 64, 128, 4, 2, vocab_size=320),
        _sized(_SMALL, 32, 128, 2, 1, vocab_size=320),
        vision=_sized(_CLIP, 32, 64, 2, 2, image_size=56, patch_size=14),
        image=300,
    ),
}
"""The shapes that can be written, by name."""
