"""Tiny random checkpoints of all of Qwen's families, written by transformers."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from support.factory import randomized, silenced
from support.factory_layouts import byte_level, text_sizes, write_json

SPECIAL_TOKENS = [
    "<|endoftext|>",
    "<|im_start|>",
    "<|im_end|>",
    "<|vision_start|>",
    "<|vision_end|>",
    "<|image_pad|>",
    "<|video_pad|>",
]
IMAGE_ID = SPECIAL_TOKENS.index("<|image_pad|>")
STOP_ID = SPECIAL_TOKENS.index("<|im_end|>")
IDS = {
    "image_token_id": IMAGE_ID,
    "video_token_id": IMAGE_ID + 1,
    "vision_start_token_id": IMAGE_ID - 2,
    "vision_end_token_id": IMAGE_ID - 1,
}
CHAT_TEMPLATE = (
    "{% for message in messages %}{{ '<|im_start|>' + message.role + '\\n' }}"
    "{% if message.content is string %}{{ message.content }}{% else %}"
    "{% for part in message.content %}{% if part.type == 'image' %}"
    "<|vision_start|><|image_pad|><|vision_end|>{% elif part.type == 'video' %}"
    "<|vision_start|><|video_pad|><|vision_end|>"
    "{% else %}{{ part.text }}{% endif %}{% endfor %}{% endif %}"
    "{{ '<|im_end|>\\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)


@dataclass(frozen=True)
class QwenSizes:
    """What can be chosen about a tiny Qwen; an image cell is 2 x 2 patches of 4 x 4 pixels."""

    hidden_size: int = 64
    intermediate_size: int = 128
    layers: int = 3
    heads: int = 4
    key_value_heads: int = 2
    head_dim: int = 16
    vocab_size: int = 320
    positions: int = 1024
    tied: bool = False
    theta: float = 10000.0
    sections: tuple[int, int, int] = (4, 2, 2)
    vision_hidden_size: int = 32
    depth: int = 3
    side: int = 6
    deepstack: tuple[int, ...] = (0, 2)
    window: int = 16
    """Side in pixels of Qwen2.5-VL's windows."""
    whole: tuple[int, ...] = (1,)
    """Layers of Qwen2.5-VL's tower that attend to the whole image."""
    kinds: str = "ddda"
    """Layers of Qwen3.5's decoder: d for Gated DeltaNet, a for attention."""
    share: float = 0.5
    """The part of Qwen3.5's heads that turns."""
    key_heads: int = 2
    """Heads of keys of Gated DeltaNet, as the next four sizes."""
    value_heads: int = 4
    key_dim: int = 8
    value_dim: int = 16
    kernel: int = 4


def tiny_qwen(kind: str, path: Path, *, seed: int = 0, **sizes: Any) -> Path:
    """Write a random checkpoint of a `model_type`, its tokenizer and processor; returns `path`."""
    from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForImageTextToText

    chosen, network = QwenSizes(**sizes), AutoModelForCausalLM
    given = _text(chosen, kind)
    if kind in QWENS:
        given = {"text_config": given, "vision_config": _vision(chosen, kind), **IDS}
        network = AutoModelForImageTextToText
    config = AutoConfig.for_model(kind, **given, tie_word_embeddings=chosen.tied)
    model = randomized(network.from_config(config), seed)
    if "3_5" in kind:
        _lasting(model)
    _write(silenced(model, range(len(SPECIAL_TOKENS))), path)
    return path


def _lasting(model: Any) -> None:
    """Let states decay at many speeds, some over hundreds of tokens."""
    import torch

    with torch.no_grad():
        for name, weight in model.named_parameters():
            if name.endswith("A_log"):
                weight.copy_(torch.linspace(-6, 0, len(weight)))
            if name.endswith("norm.weight") and "linear_attn" not in name and "visual" not in name:
                weight -= 1


WIDE = {"vision_hidden_size": 64, "head_dim": 32, "seed": 8}
QWENS = {
    "qwen3_vl": WIDE | {"sections": (6, 5, 5)},
    "qwen2_5_vl": WIDE | {"sections": (6, 5, 5), "hidden_size": 128},
    "qwen3_5": WIDE | {"kinds": "dadda"},
}
"""Sizes of a checkpoint of each family that sees, whose rows divide into groups of 64."""
DRAFTS = dict(zip(QWENS, ("qwen3_vl", "qwen2_5_vl", "qwen3_vl"), strict=True))
"""The `model_type` of a draft for each, which may have several views."""
ROPES = {
    "qwen3_vl": {"rope_type": "default", "mrope_section": [2, 3, 3], "mrope_interleaved": True},
    "qwen2_5_vl": {"type": "mrope", "mrope_section": [2, 3, 3]},
}
"""What published heads for each family of attention alone say about their positions."""


def as_on_the_hub(path: Path) -> Path:
    """Give a checkpoint that sees the config of its family's files on the hub; returns `path`.

    Programs other than transformers 5 know no `rope_parameters`.
    """
    config = json.loads((path / "config.json").read_text())
    text = config["text_config"]
    text["tie_word_embeddings"] = config["tie_word_embeddings"]
    if config["model_type"] == "qwen3_5":
        write_json(path / "config.json", config)
        return path
    rope = text.pop("rope_parameters")
    text["rope_theta"] = rope.pop("rope_theta")
    text["rope_scaling"] = rope
    config["vision_config"]["model_type"] = config["model_type"]
    if config["model_type"] == "qwen2_5_vl":
        rope["type"] = "mrope"
        del config["text_config"], text["model_type"]
        config = text | config
    write_json(path / "config.json", config)
    return path


def _vision(sizes: QwenSizes, kind: str) -> dict[str, Any]:
    config: dict[str, Any] = {
        "depth": sizes.depth,
        "hidden_size": sizes.vision_hidden_size,
        "intermediate_size": 2 * sizes.vision_hidden_size,
        "num_heads": 2,
        "patch_size": 4,
        "out_hidden_size": sizes.hidden_size,
    }
    if kind == "qwen2_5_vl":
        config |= {"window_size": sizes.window, "fullatt_block_indexes": list(sizes.whole)}
        return config | {"tokens_per_second": 2}
    deepstack = {"deepstack_visual_indexes": list(sizes.deepstack)} if kind == "qwen3_vl" else {}
    return config | {"num_position_embeddings": sizes.side**2} | deepstack


def _text(sizes: QwenSizes, kind: str) -> dict[str, Any]:
    rope: dict[str, Any] = {"rope_type": "default", "rope_theta": sizes.theta}
    if kind in ("qwen2_5_vl", "qwen3_vl") or "3_5" in kind:
        rope["mrope_section"] = list(sizes.sections)
    if kind == "qwen3_vl" or "3_5" in kind:
        rope["mrope_interleaved"] = True
    config = text_sizes(sizes) | {"head_dim": sizes.head_dim, "rope_parameters": rope}
    if "3_5" not in kind:
        return config
    rope["partial_rotary_factor"] = sizes.share
    names = {"d": "linear_attention", "a": "full_attention"}
    return config | {
        "num_hidden_layers": len(sizes.kinds),
        "layer_types": [names[kind] for kind in sizes.kinds],
        "linear_num_key_heads": sizes.key_heads,
        "linear_num_value_heads": sizes.value_heads,
        "linear_key_head_dim": sizes.key_dim,
        "linear_value_head_dim": sizes.value_dim,
        "linear_conv_kernel_dim": sizes.kernel,
    }


def _write(model: Any, path: Path) -> None:
    """Write a checkpoint, its tokenizer, and the hub's preprocessor_config.json for its tower."""
    model.generation_config.eos_token_id = [STOP_ID, 0]
    model.save_pretrained(path)
    write_tokenizer(path)
    if not hasattr(model.config, "vision_config"):
        return
    settings = {
        "patch_size": 4,
        "temporal_patch_size": 2,
        "merge_size": 2,
        "image_mean": [0.5, 0.5, 0.5],
        "image_std": [0.5, 0.5, 0.5],
        "processor_class": "Qwen3VLProcessor",
        "image_processor_type": "Qwen2VLImageProcessorFast",
    }
    for name, cells in (("", 40), ("video_", 400)):
        areas = {"longest_edge": cells * 64, "shortest_edge": 4 * 64}
        write_json(path / f"{name}preprocessor_config.json", settings | {"size": areas})


def write_tokenizer(path: Path) -> None:
    """Write a byte-level BPE as Qwen's: without BOS, special tokens only added."""
    byte_level(SPECIAL_TOKENS).save(str(path / "tokenizer.json"))
    names = {"pad_token": "<|endoftext|>", "bos_token": None, "eos_token": "<|im_end|>"}
    kind = {"tokenizer_class": "Qwen2Tokenizer", "chat_template": CHAT_TEMPLATE}
    write_json(path / "tokenizer_config.json", names | kind | {"add_bos_token": False})
    write_json(path / "chat_template.json", {"chat_template": CHAT_TEMPLATE})


def add_mtp(path: Path) -> Path:
    """Add random tensors of a drafter to a Qwen3.5's, as the hub's files have them; returns `path`.

    Both models then say mostly what the last token makes them say, so that some drafts are right.
    """
    import torch
    from safetensors.torch import load_file, save_file

    from support.mtp_drafter import MtpDrafter

    draws, tensors = torch.Generator().manual_seed(0), {}
    for name, weight in MtpDrafter(path).named_parameters():
        spread = 0.1 if weight.ndim == 1 else 0.2 * weight.shape[-1] ** -0.5
        tensors[f"mtp.{name}"] = spread * torch.randn(weight.shape, generator=draws)
    fusion = tensors["mtp.fc.weight"]
    fusion[:, : len(fusion)] += torch.eye(len(fusion))
    file = path / "model.safetensors"
    stored = load_file(file)
    for name in stored:
        if name.endswith(("o_proj.weight", "out_proj.weight", "down_proj.weight")):
            stored[name] *= 0.02
    save_file(stored | tensors, file, {"format": "pt"})
    return path
