"""The sizes of checkpoints that can be written, read from `shapes.toml`."""

import tomllib
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

Config = dict[str, Any]

_TABLES = tomllib.loads(files(__package__).joinpath("shapes.toml").read_text(encoding="utf-8"))


@dataclass(frozen=True, slots=True)
class Shape:
    """The configs of a target and its draft; the head's layer has the size of a target's."""

    target: Config
    draft: Config


def text(name: str) -> Config:
    """The config of a language model in `shapes.toml`."""
    return _config("texts", name)


def _config(kind: str, name: str) -> Config:
    entries = _TABLES[kind][name]
    base = _config(kind, entries["base"]) if "base" in entries else {}
    return base | {key: value for key, value in entries.items() if key != "base"}


def llava(
    text: Config, dtype: str = "float16", *, tower: str = "clip-large", image: int = 32000
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
        "vision_config": _config("towers", tower),
        "vision_feature_layer": -2,
        "vision_feature_select_strategy": "default",
        "vocab_size": text["vocab_size"],
    }


def _shape(target: str, draft: str, **others: Any) -> Shape:
    return Shape(*(llava(text(name), "bfloat16", **others) for name in (target, draft)))


SHAPES = {name: _shape(**pair) for name, pair in _TABLES["pairs"].items()}
"""The shapes that can be written, by name."""
