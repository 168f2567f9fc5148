"""Writes trained weights as a checkpoint directory that transformers, vLLM and mlx-vlm read."""

from pathlib import Path

import torch
from safetensors.torch import load_file
from tokenizers import Tokenizer
from torch import nn
from transformers import (
    CLIPImageProcessorPil,
    LlavaForConditionalGeneration,
    LlavaProcessor,
    PreTrainedTokenizerFast,
)

from mmspec.checkpoints.config import read_config
from mmspec.checkpoints.loading_plan import WEIGHTS_FILE
from mmspec.checkpoints.manifest import canonical, hub_name
from mmspec_torch.device.tensor_files import save_tensors
from mmspec_train.mini.recipe import TowerSizes
from mmspec_train.mini.tokenizer import BOS, EOS, IMAGE, PAD

CHAT_TEMPLATE = (
    "{{ bos_token }}"
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
    _rename_tensors(directory)
    side = {"height": tower.image, "width": tower.image}
    images = CLIPImageProcessorPil(size={"shortest_edge": tower.image}, crop_size=side)
    images.save_pretrained(directory)  # again, for programs that read no processor_config.json
    tokens = PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]
        tokenizer_object=tokenizer,
        bos_token=BOS,
        eos_token=EOS,
        pad_token=PAD,
        extra_special_tokens={"image_token": IMAGE},
        model_max_length=model.config.get_text_config().max_position_embeddings,
        clean_up_tokenization_spaces=False,
    )
    processor = LlavaProcessor(  # type: ignore[no-untyped-call]
        images,
        tokens,
        patch_size=tower.patch,
        vision_feature_select_strategy="default",
        chat_template=CHAT_TEMPLATE,
        num_additional_image_tokens=1,
    )
    processor.save_pretrained(directory)


def _rename_tensors(directory: Path) -> None:
    """Give a checkpoint's tensors the hub's names, which other engines know alone."""
    config, file = read_config(directory), directory / WEIGHTS_FILE
    tensors = load_file(file)
    save_tensors(file, {hub_name(canonical(n, config), config): t for n, t in tensors.items()})
