"""Joins a Llama and a LLaVA's tower into a LLaVA, and writes it as every program reads it."""

from pathlib import Path
from typing import Any

import torch
from torch import nn
from transformers import (
    AutoTokenizer,
    CLIPImageProcessorPil,
    LlamaForCausalLM,
    LlavaConfig,
    LlavaForConditionalGeneration,
    LlavaProcessor,
)

from mmspec.checkpoints.config import read_config
from mmspec.checkpoints.loading_plan import WEIGHTS_FILE
from mmspec.checkpoints.manifest import canonical, hub_name
from mmspec.prompt.chat_template import load_template
from mmspec_torch.device.tensor_files import save_tensors

IMAGE = "<image>"
PARTS_AS_TEXT = """\
{%- set texts = namespace(messages=[]) -%}
{%- for message in messages -%}
  {%- set text -%}
    {%- if message['content'] is string -%}{{ message['content'] }}{%- else -%}
      {%- for part in message['content'] -%}
        {{ '<image>\\n' if part['type'] == 'image' else part['text'] }}
      {%- endfor -%}
    {%- endif -%}
  {%- endset -%}
  {%- set texts.messages = texts.messages + [{'role': message['role'], 'content': text}] -%}
{%- endfor -%}
{%- set messages = texts.messages -%}
"""
"""Start of a chat template that turns messages of text and images into messages of text."""


def write_llava(language: Path, tower: Path, seed: int, directory: Path) -> None:
    """Write a LLaVA of a Llama and a LLaVA's tower, with a random projector, for any loader."""
    torch.manual_seed(seed)
    llama = LlamaForCausalLM.from_pretrained(language, dtype=torch.float32)
    donor = LlavaForConditionalGeneration.from_pretrained(tower, dtype=torch.float32)
    tokens = AutoTokenizer.from_pretrained(language, extra_special_tokens={"image_token": IMAGE})
    image_id: Any = tokens.convert_tokens_to_ids(IMAGE)
    if image_id >= llama.config.vocab_size:
        llama.resize_token_embeddings(image_id + 1, mean_resizing=False)
    vision: Any = donor.config.vision_config
    tower_config: Any = read_config(tower).vision
    vision.num_hidden_layers = tower_config.layers  # up to the one whose output is used
    config = LlavaConfig(
        vision_config=vision,
        text_config=llama.config,
        image_token_index=image_id,
        image_seq_length=donor.config.image_seq_length,
        vision_feature_layer=-1,
        tie_word_embeddings=llama.config.tie_word_embeddings,
    )
    model = LlavaForConditionalGeneration(config)
    model.model.vision_tower.load_state_dict(donor.model.vision_tower.state_dict(), strict=False)
    model.model.language_model.load_state_dict(llama.model.state_dict())
    model.lm_head.load_state_dict(llama.lm_head.state_dict())
    model.generation_config = llama.generation_config
    template = load_template(language).source
    shows_images = "<image>" in template  # as that of a LLaVA's own draft
    processor = LlavaProcessor(  # type: ignore[no-untyped-call]
        CLIPImageProcessorPil.from_pretrained(tower),
        tokens,
        patch_size=vision.patch_size,
        vision_feature_select_strategy="default",
        chat_template=template if shows_images else PARTS_AS_TEXT + template,
        num_additional_image_tokens=1,
    )
    nn.Module.half(model)
    model.save_pretrained(directory)
    save_weights(model, directory)
    # Twice, for programs that read no processor_config.json.
    processor.image_processor.save_pretrained(directory)
    processor.save_pretrained(directory)


def save_weights(model: LlavaForConditionalGeneration, directory: Path) -> None:
    """Replace a checkpoint's weights, in float16, by the hub's names, which all programs know."""
    config, tensors = read_config(directory), model.state_dict()
    if config.text.tie_word_embeddings:
        del tensors["lm_head.weight"]
    names = {name: hub_name(canonical(name, config), config) for name in tensors}
    save_tensors(directory / WEIGHTS_FILE, {names[n]: t.half() for n, t in tensors.items()})
