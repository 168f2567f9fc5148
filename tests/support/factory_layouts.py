"""The files of tiny checkpoints: tensor layouts, configs, tokenizer and processor."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

IMAGE_TOKEN_ID = 3
TOKENIZER_SIZE = 312
SPECIAL_TOKENS = ["<pad>", "<s>", "</s>", "<image>"]
CHAT_TEMPLATE = (
    "{% for message in messages %}"
    "{% if message.role == 'system' %}{{ message.content }} "
    "{% else %}{{ message.role | upper }}: "
    "{% if message.content is string %}{{ message.content }}"
    "{% else %}{% for part in message.content %}"
    "{{ '<image>\\n' if part.type == 'image' else part.text }}"
    "{% endfor %}{% endif %}"
    "{{ eos_token if message.role == 'assistant' else ' ' }}{% endif %}"
    "{% endfor %}{{ 'ASSISTANT:' if add_generation_prompt }}"
)
CORPUS = (
    "USER: what is in the picture? ASSISTANT: a small red circle stands left of the large blue "
    "square, and the green triangle is above them. How many shapes are there? There are three. "
    "Describe the image in one sentence. The chart shows that the third bar is the tallest bar. "
)

Layout = Literal["hub", "transformers"]


@dataclass(frozen=True)
class Sizes:
    """What can be chosen about a tiny model; every default divides into groups of 64."""

    hidden_size: int = 64
    intermediate_size: int = 128
    layers: int = 2
    heads: int = 4
    key_value_heads: int = 4
    vocab_size: int = 320
    positions: int = 1024
    tied: bool = False
    image_size: int = 32
    patch_size: int = 8
    feature_layer: int = -2
    select_strategy: str = "default"

    @property
    def image_tokens(self) -> int:
        patches = (self.image_size // self.patch_size) ** 2
        return patches + (self.select_strategy == "full")


def write(model: Any, path: Path, sizes: Sizes, layout: Layout, dtype: str, sharded: bool) -> Path:
    import torch

    model = model.to(getattr(torch, dtype))
    model.generation_config.eos_token_id = 2
    path.mkdir(parents=True)
    if layout == "transformers":
        model.save_pretrained(path, max_shard_size="200KB" if sharded else "5GB")
    else:
        _write_hub(model, path, sizes, dtype, sharded)
    write_tokenizer(path)
    if hasattr(model.config, "vision_config"):
        _write_processor(path, sizes, layout)
    return path


def _write_hub(model: Any, path: Path, sizes: Sizes, dtype: str, sharded: bool) -> None:
    """Write names, buffers and the short config as the hub's LLaVA-1.5 files have them."""
    from huggingface_hub import save_torch_state_dict

    tensors = _hub_tensors(model, sizes)
    total = sum(tensor.nbytes for tensor in tensors.values())
    if sharded:  # into two files, most neighbours apart
        tensors = {name: tensors[name] for name in [*[*tensors][::2], *[*tensors][1::2]]}
    save_torch_state_dict(tensors, path, max_shard_size=total * 3 // 5 if sharded else total)
    write_json(path / "config.json", _hub_config(model.config, sizes, dtype))
    write_json(path / "generation_config.json", {"eos_token_id": 2, "bos_token_id": 1})


def _hub_tensors(model: Any, sizes: Sizes) -> dict[str, Any]:
    import torch

    tensors = {_hub_name(model, name): weight for name, weight in model.named_parameters()}
    inverse = torch.ones(sizes.hidden_size // sizes.heads // 2)
    stem = "language_model.model." if hasattr(model.config, "vision_config") else "model."
    tensors[f"{stem}layers.0.self_attn.rotary_emb.inv_freq"] = inverse
    if hasattr(model.config, "vision_config"):
        positions = torch.arange((sizes.image_size // sizes.patch_size) ** 2 + 1)[None]
        tensors["vision_tower.vision_model.embeddings.position_ids"] = positions
    return tensors


def _hub_name(model: Any, name: str) -> str:
    if not hasattr(model.config, "vision_config"):
        return name
    if name == "lm_head.weight":
        return "language_model.lm_head.weight"
    name = name.removeprefix("model.")
    name = name.replace("language_model.", "language_model.model.", 1)
    return name.replace("vision_tower.", "vision_tower.vision_model.", 1)


TEXT_SIZES = (
    *("hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads"),
    *("num_key_value_heads", "vocab_size", "max_position_embeddings", "rms_norm_eps"),
)
VISION_SIZES = (*TEXT_SIZES[:4], "image_size", "patch_size")
"""What the hub's files say of a text model and of a tower."""
SHORT_SIZES = (
    *("hidden_size", "intermediate_size", "layers", "heads"),
    *("key_value_heads", "vocab_size", "positions"),
)
"""The first of TEXT_SIZES as they are called here."""


def text_sizes(sizes: Any) -> dict[str, Any]:
    """What `sizes` says of a text model, as transformers' configs name it."""
    names = zip(TEXT_SIZES, SHORT_SIZES, strict=False)
    return {name: getattr(sizes, short) for name, short in names}


def _hub_config(config: Any, sizes: Sizes, dtype: str) -> dict[str, Any]:
    own = config.get_text_config()
    text = {"model_type": "llama"} | {name: getattr(own, name) for name in TEXT_SIZES}
    text |= {"rope_theta": 10000.0, "rope_scaling": None, "torch_dtype": dtype}
    if not hasattr(config, "vision_config"):
        return text | {"architectures": ["LlamaForCausalLM"], "tie_word_embeddings": sizes.tied}
    vision = {name: getattr(config.vision_config, name) for name in VISION_SIZES}
    return {
        "architectures": ["LlavaForConditionalGeneration"],
        "model_type": "llava",
        "image_token_index": IMAGE_TOKEN_ID,
        "pad_token_id": 0,
        "projector_hidden_act": "gelu",
        "text_config": text,
        "tie_word_embeddings": sizes.tied,
        "torch_dtype": dtype,
        "vision_config": {"model_type": "clip_vision_model"} | vision,
        "vision_feature_layer": sizes.feature_layer,
        "vision_feature_select_strategy": sizes.select_strategy,
        "vocab_size": sizes.vocab_size,
    }


def _write_processor(path: Path, sizes: Sizes, layout: Layout) -> None:
    """Write settings, and the template where processors of today's or of the hub's kind look."""
    side = sizes.image_size
    image = {
        "image_processor_type": "CLIPImageProcessor",
        "crop_size": {"height": side, "width": side},
        "size": {"shortest_edge": side},
    }
    prompt = {
        "processor_class": "LlavaProcessor",
        "image_token": "<image>",
        "num_additional_image_tokens": 1,
        "patch_size": sizes.patch_size,
        "vision_feature_select_strategy": sizes.select_strategy,
    }
    write_json(path / "preprocessor_config.json", image)
    write_json(path / "processor_config.json", prompt)
    if layout == "transformers":
        (path / "chat_template.jinja").write_text(CHAT_TEMPLATE)
    else:
        write_json(path / "chat_template.json", {"chat_template": CHAT_TEMPLATE})


def write_json(path: Path, value: dict[str, Any]) -> None:
    path.write_text(json.dumps(value, indent=2))


def change_json(path: Path, **values: Any) -> None:
    """Give other values to keys of an object in a file."""
    write_json(path, json.loads(path.read_text()) | values)


def change_tensors(directory: Path, change: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
    """Let a checkpoint in one file hold what `change` makes of its tensors, numpy's arrays."""
    from safetensors.numpy import load_file, save_file

    file = directory / "model.safetensors"
    save_file(change(load_file(file)), file, {"format": "pt"})


def write_tokenizer(path: Path) -> None:
    """Write a byte-level BPE of TOKENIZER_SIZE tokens, Llama's special ids and a template."""
    tokenizer = byte_level(SPECIAL_TOKENS)
    start_with_bos(tokenizer)
    tokenizer.save(str(path / "tokenizer.json"))
    names = {"pad_token": "<pad>", "bos_token": "<s>", "eos_token": "</s>"}
    kind = {"tokenizer_class": "PreTrainedTokenizerFast", "chat_template": CHAT_TEMPLATE}
    write_json(path / "tokenizer_config.json", names | kind | {"image_token": "<image>"})


def start_with_bos(tokenizer: Any) -> None:
    """Put <s> before every text."""
    from tokenizers import processors

    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A", pair="<s> $A $B", special_tokens=[("<s>", tokenizer.token_to_id("<s>"))]
    )


def byte_level(special: list[str], size: int = TOKENIZER_SIZE, texts: Any = (CORPUS,)) -> Any:
    """A byte-level BPE trained on texts, whose first tokens are special."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=size,
        special_tokens=special,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    return tokenizer
