"""LLaVA models of the pair: untrained, in training, the pre-training of their tower, and saved.

The modules are transformers' own; transformers, vLLM and mlx-vlm read the checkpoints.
"""

from collections.abc import Mapping
from math import isqrt
from pathlib import Path

import torch
from tokenizers import Tokenizer
from torch import Tensor, nn
from transformers import (
    CLIPImageProcessorPil,
    CLIPVisionConfig,
    CLIPVisionModel,
    LlavaConfig,
    LlavaForConditionalGeneration,
    LlavaProcessor,
    PreTrainedTokenizerFast,
)

from mmspec.checkpoints.config import read_config
from mmspec.checkpoints.loading_plan import WEIGHTS_FILE
from mmspec.checkpoints.manifest import canonical, hub_name
from mmspec.families.clip_images import CLIP_MEAN, CLIP_STD
from mmspec.families.grid import Grid
from mmspec_torch.device.tensor_files import save_tensors
from mmspec_torch.network.vision import TorchFeatures
from mmspec_train.data.record import IGNORED
from mmspec_train.llama import ATTENTION, llama_config, llama_of_shape
from mmspec_train.mini.recipe import Rates, Recipe, TowerSizes
from mmspec_train.mini.samples import LabelledBatch, SampleBatch
from mmspec_train.mini.tokenizer import BOS, EOS, IMAGE, PAD, token_id
from mmspec_train.settings import LlamaShape


def llava(
    recipe: Recipe, text: LlamaShape, tokenizer: Tokenizer, seed: int
) -> LlavaForConditionalGeneration:
    """Build a LLaVA with random weights, the same for the same seed."""
    torch.manual_seed(seed)
    tokens = {"bos_token_id": BOS, "eos_token_id": EOS, "pad_token_id": PAD}
    token_ids = {name: token_id(tokenizer, token) for name, token in tokens.items()}
    tower = recipe.tower
    vision = CLIPVisionConfig(
        hidden_size=tower.hidden,
        intermediate_size=tower.ffn,
        num_hidden_layers=tower.layers,
        num_attention_heads=tower.heads,
        image_size=tower.image,
        patch_size=tower.patch,
        projection_dim=tower.hidden,
        hidden_act="quick_gelu",
    )
    config = LlavaConfig(
        vision_config=vision,
        text_config=llama_config(llama_of_shape(text, recipe.vocabulary), **token_ids),
        image_token_index=token_id(tokenizer, IMAGE),
        image_seq_length=tower.patches,
        vision_feature_layer=-1,
        vision_feature_select_strategy="default",
        tie_word_embeddings=True,
    )
    model = LlavaForConditionalGeneration(config)
    model.set_attn_implementation(ATTENTION)
    return model


def normalise(pixels: Tensor) -> Tensor:
    """Turn (images, side, side, 3) uint8 pixels into CLIP's (images, 3, side, side) floats."""
    mean, std = (torch.tensor(c, device=pixels.device) for c in (CLIP_MEAN, CLIP_STD))
    return ((pixels.float() / 255 - mean) / std).permute(0, 3, 1, 2)


def patch_features(tower: nn.Module, pixels: Tensor) -> Tensor:
    """Return the tower's (images, patches, hidden) features without the class token."""
    features: Tensor = tower(normalise(pixels)).last_hidden_state
    return features[:, 1:]


def embed(model: LlavaForConditionalGeneration, batch: SampleBatch) -> Tensor:
    """Return (batch, length, hidden) embeddings, with image features pooled to `batch.patches`."""
    inner = model.model
    text: Tensor = inner.get_input_embeddings()(batch.ids)
    if not len(batch.pixels):
        return text
    features = patch_features(inner.vision_tower, batch.pixels)
    sizes = [int(size) for size in batch.patches]
    grid = Grid(isqrt(features.shape[1]), isqrt(features.shape[1]))
    images = zip(features, sizes, strict=True)
    rows = torch.cat([TorchFeatures(image, grid).pooled(size).rows for image, size in images])
    is_image = (batch.ids == model.config.image_token_id).unsqueeze(-1)
    return text.masked_scatter(is_image, inner.multi_modal_projector(rows).to(text.dtype))


def learned_loss(model: LlavaForConditionalGeneration, batch: SampleBatch) -> Tensor:
    """Return the weighted mean cross-entropy over the learned tokens alone."""
    embeddings = embed(model, batch)
    hidden = model.model.language_model(inputs_embeds=embeddings, use_cache=False).last_hidden_state
    learned = batch.targets != IGNORED
    logits = model.lm_head(hidden[learned]).float()
    losses = nn.functional.cross_entropy(logits, batch.targets[learned], reduction="none")
    return (losses * batch.weights).sum() / batch.weights.sum()


EMPTY_WEIGHT = 0.2
"""Loss weight of empty cells, which are the majority."""


class CellClassifier(nn.Module):
    """A tower with a linear classifier per label on the features that LLaVA reads."""

    def __init__(self, tower: CLIPVisionModel, hidden: int, labels: Mapping[str, int]) -> None:
        """Add classifiers to a tower of width `hidden`; `labels`: number of classes by label."""
        super().__init__()
        self.tower = tower
        heads = {name: nn.Linear(hidden, classes) for name, classes in labels.items()}
        self.heads = nn.ModuleDict(heads)

    def forward(self, pixels: Tensor) -> dict[str, Tensor]:
        """Return (images, patches, classes) logits of each label."""
        features = patch_features(self.tower, pixels)
        return {name: head(features).float() for name, head in self.heads.items()}

    def loss(self, batch: LabelledBatch) -> Tensor:
        """Return the sum of the labels' cross-entropies."""
        labels = self(batch.pixels).items()
        losses = [
            nn.functional.cross_entropy(
                logits.flatten(0, 1), classes.flatten(), _weights(name, logits)
            )
            for classes, (name, logits) in zip(batch.labels, labels, strict=True)
        ]
        return torch.stack(losses).sum()


def _weights(name: str, logits: Tensor) -> Tensor:
    weights = torch.ones(logits.shape[-1], device=logits.device)
    if name != "background":
        weights[0] = EMPTY_WEIGHT
    return weights


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


def parts(model: LlavaForConditionalGeneration, rates: Rates) -> list[tuple[nn.Module, float]]:
    """Return a LLaVA's parts with their learning rates."""
    inner = model.model
    towers = (inner.vision_tower, rates.tower), (inner.multi_modal_projector, rates.projector)
    return [*towers, (inner.language_model, rates.text)]


def save_llava(
    model: LlavaForConditionalGeneration, processor: LlavaProcessor, directory: Path
) -> None:
    """Write a float16 checkpoint for any loader; converts the model itself to float16."""
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


def pair_processor(
    model: LlavaForConditionalGeneration, tokenizer: Tokenizer, tower: TowerSizes
) -> LlavaProcessor:
    """Return the processor of a model of the pair."""
    side = {"height": tower.image, "width": tower.image}
    images = CLIPImageProcessorPil(size={"shortest_edge": tower.image}, crop_size=side)
    tokens = PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]
        tokenizer_object=tokenizer,
        bos_token=BOS,
        eos_token=EOS,
        pad_token=PAD,
        extra_special_tokens={"image_token": IMAGE},
        model_max_length=model.config.get_text_config().max_position_embeddings,
        clean_up_tokenization_spaces=False,
    )
    return LlavaProcessor(  # type: ignore[no-untyped-call]
        images,
        tokens,
        patch_size=tower.patch,
        vision_feature_select_strategy="default",
        chat_template=CHAT_TEMPLATE,
        num_additional_image_tokens=1,
    )
