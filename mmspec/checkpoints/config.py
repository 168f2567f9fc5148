"""Reads the config.json of LLaVA and Llama checkpoints as transformers does."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from mmspec.checkpoints.json_file import Block, read_json

CONFIG_FILE = "config.json"


@dataclass(frozen=True)
class VisionConfig:
    """A CLIP vision tower; image_size and patch_size are in pixels."""

    hidden_size: int
    intermediate_size: int
    num_hidden_layers: int
    num_attention_heads: int
    image_size: int
    patch_size: int
    num_channels: int = 3
    layer_norm_eps: float = 1e-5
    hidden_act: str = "quick_gelu"

    @property
    def grid(self) -> int:
        """Number of patches along one side of the square image."""
        return self.image_size // self.patch_size

    @property
    def positions(self) -> int:
        """Number of rows of the tower's output: the class token and all patches."""
        return self.grid**2 + 1


@dataclass(frozen=True)
class TextConfig:
    """A Llama decoder without attention or MLP biases and with unscaled rotary positions."""

    hidden_size: int
    intermediate_size: int
    num_hidden_layers: int
    num_attention_heads: int
    num_key_value_heads: int
    head_dim: int
    vocab_size: int
    max_position_embeddings: int
    rms_norm_eps: float
    rope_theta: float
    tie_word_embeddings: bool


@dataclass(frozen=True)
class Quantization:
    """MLX's affine quantization: one scale and one bias for each group of a weight's inputs."""

    bits: int
    group_size: int


@dataclass(frozen=True)
class ModelConfig:
    """The config of a checkpoint: a Llama decoder and, if `kind` is llava, a tower and a projector.

    `dtype` is the one that the file names, or None. `vision_feature_layer` indexes the tower's
    hidden states: 0 is the embeddings, -1 the last layer's output.
    """

    kind: Literal["llava", "llama"]
    text: TextConfig
    quantization: Quantization | None
    eos_token_ids: tuple[int, ...]
    dtype: str | None
    vision: VisionConfig | None = None
    image_token_id: int | None = None
    vision_feature_layer: int = 0
    drops_class_token: bool = False
    projector_act: str = ""

    @property
    def image_tokens(self) -> int:
        """Number of positions that one image takes in a prompt; 0 for a text-only model."""
        if self.vision is None:
            return 0
        return self.vision.positions - self.drops_class_token

    @property
    def vision_layers(self) -> int:
        """Number of the tower's layers up to the one whose output is used."""
        if self.vision is None:
            return 0
        layer = self.vision_feature_layer
        return layer if layer >= 0 else self.vision.num_hidden_layers + 1 + layer


def read_config(directory: Path) -> ModelConfig:
    """Read `config.json` (and the stop tokens of `generation_config.json`) in `directory`.

    Absent keys take transformers' defaults, which the hub's short LLaVA-1.5 files rely on. Raises
    CheckpointError, naming file, key, value and what is allowed, for anything but LLaVA with a CLIP
    tower and a Llama decoder, or Llama alone.
    """
    whole = Block(read_json(directory / CONFIG_FILE), directory / CONFIG_FILE)
    kind = whole.only("model_type", ("llava", "llama"), None)
    return _llava(whole, directory) if kind == "llava" else _llama(whole, directory)


def model_type(directory: Path) -> str:
    """The `model_type` in `config.json`, supported or not."""
    return str(read_json(directory / CONFIG_FILE).get("model_type"))


def _llama(whole: Block, directory: Path) -> ModelConfig:
    return ModelConfig(
        kind="llama",
        text=read_text(whole, whole.flag("tie_word_embeddings", False)),
        quantization=_quantization(whole),
        eos_token_ids=_stop_tokens(whole, directory),
        dtype=read_dtype(whole),
    )


def _llava(whole: Block, directory: Path) -> ModelConfig:
    if "mm_vision_tower" in whole.values:
        raise whole.error("mm_vision_tower", "absent: use the checkpoint converted as llava-hf/…")
    whole.only("multimodal_projector_bias", (True,), True)
    text, vision = whole.block("text_config"), _vision(whole)
    text.only("model_type", ("llama",), "llama")
    ties = [block.flag("tie_word_embeddings", False) for block in (whole, text)]
    strategy = whole.only("vision_feature_select_strategy", ("default", "full"), "default")
    index = "image_token_index" if whole.get("image_token_index") is not None else "image_token_id"
    return ModelConfig(
        kind="llava",
        text=read_text(text, any(ties)),
        vision=vision,
        image_token_id=whole.index(index, 32000),
        vision_feature_layer=_feature_layer(whole, vision),
        drops_class_token=strategy == "default",
        projector_act=whole.only("projector_hidden_act", ("gelu",), "gelu"),
        quantization=_quantization(whole),
        eos_token_ids=_stop_tokens(text, directory),
        dtype=read_dtype(whole, text),
    )


def read_text(text: Block, tied: bool) -> TextConfig:
    """Read the decoder's sizes; tied: true if its output head is its embedding."""
    text.only("hidden_act", ("silu",), "silu")
    text.only("attention_bias", (False,), False)
    text.only("mlp_bias", (False,), False)
    hidden, heads = text.count("hidden_size", 4096), text.count("num_attention_heads", 32)
    key_value_heads = text.count("num_key_value_heads", heads)
    if hidden % heads:
        raise text.error("hidden_size", f"a multiple of num_attention_heads ({heads})")
    if heads % key_value_heads:
        raise text.error("num_key_value_heads", f"a divisor of num_attention_heads ({heads})")
    return TextConfig(
        hidden_size=hidden,
        intermediate_size=text.count("intermediate_size", 11008),
        num_hidden_layers=text.count("num_hidden_layers", 32),
        num_attention_heads=heads,
        num_key_value_heads=key_value_heads,
        head_dim=text.count("head_dim", hidden // heads),
        vocab_size=text.count("vocab_size", 32000),
        max_position_embeddings=text.count("max_position_embeddings", 2048),
        rms_norm_eps=text.number("rms_norm_eps", 1e-6),
        rope_theta=_rope_theta(text),
        tie_word_embeddings=tied,
    )


def _rope_theta(text: Block) -> float:
    """The rotary base: transformers 5's `rope_parameters`, else the older `rope_theta`."""
    for key in ("rope_parameters", "rope_scaling"):
        rope = text.block(key)
        rope.only("rope_type", ("default",), "default")
        rope.only("type", ("default",), "default")
        rope.only("partial_rotary_factor", (1.0,), 1.0)
    text.only("partial_rotary_factor", (1.0,), 1.0)
    theta = text.number("rope_theta", 10000.0)
    return text.block("rope_parameters").number("rope_theta", theta)


def _vision(whole: Block) -> VisionConfig:
    """Read the tower; missing keys are CLIP's defaults, a missing block is LLaVA-1.5's tower."""
    if whole.get("vision_config") is None:
        return VisionConfig(1024, 4096, 24, 16, image_size=336, patch_size=14)
    vision = whole.block("vision_config")
    vision.only("model_type", ("clip_vision_model",), "clip_vision_model")
    hidden, heads = vision.count("hidden_size", 768), vision.count("num_attention_heads", 12)
    image, patch = vision.count("image_size", 224), vision.count("patch_size", 32)
    if hidden % heads:
        raise vision.error("hidden_size", f"a multiple of num_attention_heads ({heads})")
    if patch > image:
        raise vision.error("patch_size", f"at most image_size ({image})")
    return VisionConfig(
        hidden_size=hidden,
        intermediate_size=vision.count("intermediate_size", 3072),
        num_hidden_layers=vision.count("num_hidden_layers", 12),
        num_attention_heads=heads,
        image_size=image,
        patch_size=patch,
        num_channels=vision.only("num_channels", (3,), 3),
        layer_norm_eps=vision.number("layer_norm_eps", 1e-5),
        hidden_act=vision.only("hidden_act", ("quick_gelu",), "quick_gelu"),
    )


def _feature_layer(whole: Block, vision: VisionConfig) -> int:
    layer, layers = whole.index("vision_feature_layer", -2), vision.num_hidden_layers
    if not -layers - 1 <= layer <= layers:
        raise whole.error("vision_feature_layer", f"from {-layers - 1} to {layers}")
    return layer


def _quantization(whole: Block) -> Quantization | None:
    """Read MLX's block; raises CheckpointError for other quantization methods."""
    key = "quantization" if whole.get("quantization") is not None else "quantization_config"
    if whole.get(key) is None:
        return None
    block = whole.block(key)
    block.only("mode", ("affine",), "affine")
    for name, value in block.values.items():
        if name == "quant_method" or isinstance(value, dict):
            raise block.error(name, "absent: one MLX affine setting for the whole model")
    bits = block.only("bits", (2, 4, 8), 4)
    return Quantization(bits, block.only("group_size", (32, 64, 128), 64))


def _stop_tokens(text: Block, directory: Path) -> tuple[int, ...]:
    file = directory / "generation_config.json"
    generation = Block(read_json(file), file) if file.exists() else text
    source = generation if generation.get("eos_token_id") is not None else text
    value = source.get("eos_token_id", 2)
    ids = tuple(value) if isinstance(value, list) else (value,)
    if not all(type(id) is int for id in ids):
        raise source.error("eos_token_id", "an integer or a list of integers")
    return ids


def read_dtype(*blocks: Block) -> str | None:
    """The first dtype named in `blocks`, under transformers 5's key or the older one."""
    for block in blocks:
        for key in ("dtype", "torch_dtype"):
            if block.get(key) is not None:
                return str(block.only(key, ("float32", "float16", "bfloat16"), None))
    return None
