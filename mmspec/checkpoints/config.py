"""Reads the config.json of LLaVA and Llama checkpoints as transformers does."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Literal

from mmspec.checkpoints.json_file import Block, read_json
from mmspec.input_files import is_there
from mmspec.json_reader.limits import Range

CONFIG_FILE = "config.json"

# Far beyond any model, and small enough that listing a model's tensors takes no time.
Width = Annotated[int, Range(1, 1_000_000)]
"""A number of features."""
Layers = Annotated[int, Range(1, 1000)]
Heads = Annotated[int, Range(1, 10_000)]
Vocabulary = Annotated[int, Range(1, 100_000_000)]
Positions = Annotated[int, Range(1, 1_000_000_000)]
Pixels = Annotated[int, Range(1, 10_000)]
"""The side of an image or a patch, in pixels."""
TokenId = Annotated[int, Range(-(2**31), 2**31)]
"""A token, in the vocabulary or not."""
Epsilon = Annotated[float, Range(1e-30, 1.0)]
RotaryBase = Annotated[float, Range(1.0, 1e15)]


@dataclass(frozen=True)
class VisionConfig:
    """A CLIP vision tower; image_size and patch_size are in pixels."""

    hidden_size: Width
    intermediate_size: Width
    num_hidden_layers: Layers
    num_attention_heads: Heads
    image_size: Pixels
    patch_size: Pixels
    num_channels: Literal[3] = 3
    layer_norm_eps: Epsilon = 1e-5
    hidden_act: Literal["quick_gelu"] = "quick_gelu"

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

    hidden_size: Width
    intermediate_size: Width
    num_hidden_layers: Layers
    num_attention_heads: Heads
    num_key_value_heads: Heads
    head_dim: Width
    vocab_size: Vocabulary
    max_position_embeddings: Positions
    rms_norm_eps: Epsilon
    rope_theta: RotaryBase
    tie_word_embeddings: bool


@dataclass(frozen=True)
class Quantization:
    """MLX's affine quantization: one scale and one bias for each group of a weight's inputs."""

    bits: Literal[2, 4, 8]
    group_size: Literal[32, 64, 128]


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
        image_token_id=whole.read(index, TokenId, 32000),
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
    hidden, heads = (
        text.read("hidden_size", Width, 4096),
        text.read("num_attention_heads", Heads, 32),
    )
    if hidden % heads:
        raise text.error("hidden_size", f"a multiple of num_attention_heads ({heads})")
    config = text.record(
        TextConfig,
        hidden_size=hidden,
        intermediate_size=11008,
        num_hidden_layers=32,
        num_attention_heads=heads,
        num_key_value_heads=heads,
        head_dim=hidden // heads,
        vocab_size=32000,
        max_position_embeddings=2048,
        rms_norm_eps=1e-6,
        rope_theta=10000.0,
        tie_word_embeddings=tied,
    )
    if heads % config.num_key_value_heads:
        raise text.error("num_key_value_heads", f"a divisor of num_attention_heads ({heads})")
    if config.head_dim % 2:
        raise text.error("head_dim", "even, for rotary positions turn pairs of features")
    return replace(config, rope_theta=_rope_theta(text), tie_word_embeddings=tied)


def _rope_theta(text: Block) -> float:
    """The rotary base: transformers 5's `rope_parameters`, else the older `rope_theta`."""
    for key in ("rope_parameters", "rope_scaling"):
        rope = text.block(key)
        rope.only("rope_type", ("default",), "default")
        rope.only("type", ("default",), "default")
        rope.only("partial_rotary_factor", (1.0,), 1.0)
    text.only("partial_rotary_factor", (1.0,), 1.0)
    theta = text.read("rope_theta", RotaryBase, 10000.0)
    base: float = text.block("rope_parameters").read("rope_theta", RotaryBase, theta)
    return base


def _vision(whole: Block) -> VisionConfig:
    """Read the tower; missing keys are CLIP's defaults, a missing block is LLaVA-1.5's tower."""
    if whole.get("vision_config") is None:
        return VisionConfig(1024, 4096, 24, 16, image_size=336, patch_size=14)
    vision = whole.block("vision_config")
    vision.only("model_type", ("clip_vision_model",), "clip_vision_model")
    config = vision.record(
        VisionConfig,
        hidden_size=768,
        intermediate_size=3072,
        num_hidden_layers=12,
        num_attention_heads=12,
        image_size=224,
        patch_size=32,
    )
    if config.hidden_size % config.num_attention_heads:
        heads = config.num_attention_heads
        raise vision.error("hidden_size", f"a multiple of num_attention_heads ({heads})")
    if config.patch_size > config.image_size:
        raise vision.error("patch_size", f"at most image_size ({config.image_size})")
    return config


def _feature_layer(whole: Block, vision: VisionConfig) -> int:
    layers = vision.num_hidden_layers
    return whole.integer("vision_feature_layer", -2, -layers - 1, layers)


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
    return block.record(Quantization, bits=4, group_size=64)


def _stop_tokens(text: Block, directory: Path) -> tuple[int, ...]:
    file = directory / "generation_config.json"
    generation = Block(read_json(file), file) if is_there(file) else text
    source = generation if generation.get("eos_token_id") is not None else text
    if isinstance(source.get("eos_token_id"), list):
        ids: tuple[int, ...] = source.read("eos_token_id", tuple[TokenId, ...], ())
        return ids
    return (source.read("eos_token_id", TokenId, 2),)


def read_dtype(*blocks: Block) -> str | None:
    """The first dtype named in `blocks`, under transformers 5's key or the older one."""
    for block in blocks:
        for key in ("dtype", "torch_dtype"):
            if block.get(key) is not None:
                return str(block.only(key, ("float32", "float16", "bfloat16"), None))
    return None
