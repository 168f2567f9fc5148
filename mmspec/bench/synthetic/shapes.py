"""The sizes of published checkpoints, as their config.json have them, and of small ones."""

from dataclasses import dataclass
from typing import Any

Config = dict[str, Any]

CLIP_LARGE: Config = {
    "hidden_size": 1024,
    "image_size": 336,
    "intermediate_size": 4096,
    "model_type": "clip_vision_model",
    "num_attention_heads": 16,
    "num_hidden_layers": 24,
    "patch_size": 14,
    "projection_dim": 768,
    "vocab_size": 32000,
}
VICUNA_7B: Config = {
    "_name_or_path": "lmsys/vicuna-7b-v1.5",
    "max_position_embeddings": 4096,
    "model_type": "llama",
    "rms_norm_eps": 1e-05,
    "torch_dtype": "float16",
    "vocab_size": 32064,
}
VICUNA_13B = VICUNA_7B | {
    "_name_or_path": "lmsys/vicuna-13b-v1.5",
    "hidden_size": 5120,
    "intermediate_size": 13824,
    "num_attention_heads": 40,
    "num_hidden_layers": 40,
    "num_key_value_heads": 40,
}
LLAMA_68M: Config = {
    "architectures": ["LlamaForCausalLM"],
    "eos_token_id": 2,
    "hidden_act": "silu",
    "hidden_size": 768,
    "intermediate_size": 3072,
    "max_position_embeddings": 2048,
    "model_type": "llama",
    "num_attention_heads": 12,
    "num_hidden_layers": 2,
    "rms_norm_eps": 1e-06,
    "tie_word_embeddings": False,
    "torch_dtype": "float32",
    "vocab_size": 32000,
}
DRAFT_68M = LLAMA_68M | {"vocab_size": 32064}
DRAFT_160M = DRAFT_68M | {"num_hidden_layers": 12}

_TINY_CLIP = CLIP_LARGE | {
    "hidden_size": 32,
    "image_size": 56,
    "intermediate_size": 64,
    "num_attention_heads": 2,
    "num_hidden_layers": 2,
}
_TINY = VICUNA_7B | {
    "_name_or_path": "",
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_attention_heads": 4,
    "num_hidden_layers": 2,
    "vocab_size": 320,
}
_TINY_DRAFT = _TINY | {"hidden_size": 32, "num_attention_heads": 2, "num_hidden_layers": 1}

_MINI_CLIP = CLIP_LARGE | {
    "hidden_size": 192,
    "image_size": 144,
    "intermediate_size": 768,
    "num_attention_heads": 3,
    "num_hidden_layers": 4,
    "patch_size": 12,
}
_MINI = VICUNA_7B | {
    "_name_or_path": "",
    "hidden_size": 256,
    "intermediate_size": 768,
    "max_position_embeddings": 2048,
    "num_attention_heads": 4,
    "num_hidden_layers": 11,
    "vocab_size": 1024,
}
_MINI_DRAFT = _MINI | {
    "hidden_size": 128,
    "intermediate_size": 384,
    "num_attention_heads": 2,
    "num_hidden_layers": 2,
}


def llava(
    text: Config, dtype: str = "float16", *, vision: Config = CLIP_LARGE, image: int = 32000
) -> Config:
    """Return a LLaVA-1.5 config as the hub's files have it; `image` is the image token's id."""
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


def _tiny(text: Config) -> Config:
    return llava(text, "bfloat16", vision=_TINY_CLIP, image=300)


def _mini(text: Config) -> Config:
    return llava(text, "bfloat16", vision=_MINI_CLIP, image=1000)


@dataclass(frozen=True, slots=True)
class Shape:
    """A target and the draft model beside it; its head has the sizes of one of its layers."""

    target: Config
    draft: Config


SHAPES = {
    "llava-1.5-7b": Shape(llava(VICUNA_7B, "bfloat16"), llava(DRAFT_68M, "bfloat16")),
    "llava-1.5-13b": Shape(llava(VICUNA_13B, "bfloat16"), llava(DRAFT_68M, "bfloat16")),
    "mini": Shape(_mini(_MINI), _mini(_MINI_DRAFT)),
    "tiny": Shape(_tiny(_TINY), _tiny(_TINY_DRAFT)),
}
"""What can be written, by name."""
