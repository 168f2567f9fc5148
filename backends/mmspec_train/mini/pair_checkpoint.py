"""Writes trained weights as a checkpoint directory in transformers' format."""

import json
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer
from torch import nn
from transformers import CLIPImageProcessorPil, LlavaForConditionalGeneration

from mmspec_train.mini.recipe import TowerSizes
from mmspec_train.mini.tokenizer import BOS, EOS, IMAGE, PAD

CHAT_TEMPLATE = (
    "{% for message in messages %}"
    "{{ message['role'].upper() + ': ' }}"
    "{% for part in message['content'] | selectattr('type', 'equalto', 'image') %}"
    "{{ '<image>\\n' }}{% endfor %}"
    "{% for part in message['content'] | selectattr('type', 'equalto', 'text') %}"
    "{{ part['text'] + ' ' }}{% endfor %}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ 'ASSISTANT:' }}{% endif %}"
)


def round_to_float16(module: nn.Module) -> None:
    """Round every parameter to the nearest float16, so that saving in float16 loses nothing."""
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.copy_(parameter.half())


def save_pair_model(
    model: LlavaForConditionalGeneration, tokenizer: Tokenizer, tower: TowerSizes, directory: Path
) -> None:
    """Write a float16 checkpoint with everything a loader or transformers needs.

    Converts the model itself to float16.
    """
    nn.Module.half(model)
    model.save_pretrained(directory)
    tokenizer.save(str(directory / "tokenizer.json"))
    side = {"height": tower.image, "width": tower.image}
    images = CLIPImageProcessorPil(size={"shortest_edge": tower.image}, crop_size=side)
    images.save_pretrained(directory)
    files = {
        "tokenizer_config.json": _tokenizer_config(
            model.config.get_text_config().max_position_embeddings
        ),
        "processor_config.json": _processor(tower),
    }
    for name, content in files.items():
        (directory / name).write_text(json.dumps(content, indent=2) + "\n")
    (directory / "chat_template.jinja").write_text(CHAT_TEMPLATE)


def _tokenizer_config(positions: int) -> dict[str, Any]:
    return {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": BOS,
        "eos_token": EOS,
        "pad_token": PAD,
        "image_token": IMAGE,
        "extra_special_tokens": {"image_token": IMAGE},
        "model_max_length": positions,
        "clean_up_tokenization_spaces": False,
        "chat_template": CHAT_TEMPLATE,
    }


def _processor(tower: TowerSizes) -> dict[str, Any]:
    return {
        "processor_class": "LlavaProcessor",
        "image_token": IMAGE,
        "patch_size": tower.patch,
        "vision_feature_select_strategy": "default",
        "num_additional_image_tokens": 1,
    }
