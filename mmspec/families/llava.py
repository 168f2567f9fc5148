"""LLaVA-1.5: CLIP's tower up to a feature layer, a projector of two layers, and Llama."""

from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Literal

from mmspec.families.clip_images import ClipImages, read_clip_images
from mmspec.families.decoder import Epsilon, Heads, Layers, TextConfig, TokenId, Width, tie_as
from mmspec.families.family import Architecture, Family
from mmspec.families.grid import Grid
from mmspec.families.text_families import LLAMA, read_llama
from mmspec.families.tower import (
    Array,
    Tensors,
    TowerLayer,
    TowerParts,
    cut,
    full_attention,
    listed,
    mlp,
)
from mmspec.ground.json_file import Block, Range

Pixels = Annotated[int, Range(1, 10_000)]
"""The side of an image or a patch, in pixels."""

PATCHES = "vision_tower.embeddings.patch_embedding.weight"
"""Name of the only convolution's weight, which MLX stores in another axis order."""


@dataclass(frozen=True)
class LlavaVision:
    """A CLIP tower and LLaVA's projector; image_size and patch_size are in pixels.

    `feature_layer` indexes hidden states: 0 is the embeddings, -1 the last layer's output.
    """

    hidden_size: Width
    intermediate_size: Width
    num_hidden_layers: Layers
    num_attention_heads: Heads
    image_size: Pixels
    patch_size: Pixels
    num_channels: Literal[3] = 3
    layer_norm_eps: Epsilon = 1e-5
    hidden_act: Literal["quick_gelu"] = "quick_gelu"
    feature_layer: int = -2
    drops_class_token: bool = True

    @property
    def side(self) -> int:
        """Number of patches along one side of the square image."""
        return self.image_size // self.patch_size

    @property
    def layers(self) -> int:
        """Number of the tower's layers up to the one whose output is used."""
        layer = self.feature_layer
        return layer if layer >= 0 else self.num_hidden_layers + 1 + layer

    @property
    def pool_sizes(self) -> list[int]:
        """The squares into which the patches divide, largest first."""
        grid = self.side
        return [side * side for side in range(grid - 1, 0, -1) if grid % side == 0]

    def grid(self, height: int, width: int, moment: int = 0, step: float = 0.0) -> Grid:  # noqa: ARG002
        """The visual positions of pixel values; frames of clips are images."""
        sides = height // self.patch_size, width // self.patch_size
        return Grid(*sides, class_tokens=int(not self.drops_class_token))

    def preprocessing(self, directory: Path) -> ClipImages:
        """CLIP's preprocessing with a checkpoint's settings.  Raises CheckpointError."""
        return read_clip_images(directory, self.image_size)

    def tensors(self, text: TextConfig) -> Tensors:
        """The tensors of tower and projector; those after the feature layer are not loaded."""
        yield from listed(lambda parts: self.tower(parts, text))
        for index in range(self.layers, self.num_hidden_layers):
            yield from listed(partial(_layer, self, index=index), is_loaded=False)
        norm = "vision_tower.post_layernorm", self.hidden_size, self.layer_norm_eps
        yield from listed(lambda parts: parts.layer_norm(*norm), is_loaded=False)

    def tower(self, parts: TowerParts, text: TextConfig) -> "LlavaTower":
        """Take tower and projector."""
        return LlavaTower(self, parts, text.hidden_size)


class LlavaTower:
    """Implements `mmspec.families.tower.Tower`: CLIP, and a projector of two layers."""

    def __init__(self, config: LlavaVision, parts: TowerParts, text_width: int) -> None:
        # Layers after the feature layer are not built, and don't change the features.
        self.settings = repr(replace(config, num_hidden_layers=config.layers, feature_layer=0))
        self._config, self._parts = config, parts
        width, size, path = config.hidden_size, config.patch_size, "vision_tower.embeddings"
        self._class = parts.tensor(f"{path}.class_embedding", width)
        self._patches = parts.convolution(PATCHES, width, config.num_channels, size, size)
        rows = config.side**2 + 1  # the class token's and the patches'
        self._places = parts.tensor(f"{path}.position_embedding.weight", rows, width)
        self._norm = parts.layer_norm("vision_tower.pre_layrnorm", width, config.layer_norm_eps)
        self._layers = [_layer(config, parts, index) for index in range(config.layers)]
        first = parts.linear(width, text_width, "multi_modal_projector.linear_1")
        second = parts.linear(text_width, text_width, "multi_modal_projector.linear_2")
        self.project = mlp(first, parts.gelu, second)

    def encode(self, pixels: Array) -> Array:
        """Features [N, D] of pixel values [3, height, width], after the feature layer."""
        config, xp = self._config, self._parts.xp
        side = config.side * config.patch_size  # pixels beyond the last whole patch are ignored
        patches = self._patches(cut(xp, pixels[:, :side, :side], config.patch_size))
        x = self._norm(xp.concat([self._class[None], patches]) + self._places)
        attend = full_attention(self._parts)
        for layer in self._layers:
            x = layer(x, attend)
        return x[1:] if config.drops_class_token else x


def _layer(config: LlavaVision, parts: TowerParts, index: int) -> TowerLayer:
    """Take a layer of CLIP, whose MLP has a quick GELU."""
    width, inner, epsilon = config.hidden_size, config.intermediate_size, config.layer_norm_eps
    path = f"vision_tower.encoder.layers.{index}"
    first = parts.linear(width, inner, f"{path}.mlp.fc1")
    second = parts.linear(inner, width, f"{path}.mlp.fc2")
    return TowerLayer(
        config.num_attention_heads,
        parts.layer_norm(f"{path}.layer_norm1", width, epsilon),
        parts.linear(width, width, *(f"{path}.self_attn.{name}_proj" for name in "qkv")),
        parts.linear(width, width, f"{path}.self_attn.out_proj"),
        parts.layer_norm(f"{path}.layer_norm2", width, epsilon),
        mlp(first, lambda x: x * parts.xp.sigmoid(1.702 * x), second),
    )


def _read(whole: Block) -> Architecture:
    """Read config.json.  Raises CheckpointError for anything but CLIP's tower and Llama."""
    if "mm_vision_tower" in whole.values:
        raise whole.error("mm_vision_tower", "absent: use the checkpoint converted as llava-hf/…")
    whole.only("multimodal_projector_bias", (True,), True)
    text = whole.block("text_config")
    text.only("model_type", ("llama",), "llama")
    is_old = whole.get("image_token_index") is not None
    token = whole.read("image_token_index" if is_old else "image_token_id", TokenId, 32000)
    return Architecture(text, tie_as(whole, read_llama(text)), _vision(whole), token)


CLIP_SIZES = LlavaVision(768, 3072, 12, 12, image_size=224, patch_size=32)
"""Transformers' sizes of a CLIP tower whose config names none."""
LLAVA_1_5 = LlavaVision(1024, 4096, 24, 16, image_size=336, patch_size=14)
"""Those of a LLaVA whose config has no tower."""


def _vision(whole: Block) -> LlavaVision:
    whole.only("projector_hidden_act", ("gelu",), "gelu")
    strategy = whole.only("vision_feature_select_strategy", ("default", "full"), "default")
    vision = whole.block("vision_config")
    defaults = LLAVA_1_5 if whole.get("vision_config") is None else CLIP_SIZES
    vision.only("model_type", ("clip_vision_model",), "clip_vision_model")
    config = vision.record(LlavaVision, **asdict(defaults))
    if config.hidden_size % config.num_attention_heads:
        heads = config.num_attention_heads
        raise vision.error("hidden_size", f"a multiple of num_attention_heads ({heads})")
    if config.patch_size > config.image_size:
        raise vision.error("patch_size", f"at most image_size ({config.image_size})")
    layers = config.num_hidden_layers
    return replace(
        config,
        feature_layer=whole.integer("vision_feature_layer", -2, -layers - 1, layers),
        drops_class_token=strategy == "default",
    )


LLAVA = Family(
    "llava",
    LLAMA.image_tokens,
    _read,
    PATCHES,
    # Saved by: transformers 5 in memory, transformers 4 and the hub, MLX conversions (as the hub).
    stored_prefixes=(
        ("model.language_model.", "language_model."),
        ("model.vision_tower.vision_model.", "vision_tower."),
        ("model.vision_tower.", "vision_tower."),
        ("model.multi_modal_projector.", "multi_modal_projector."),
        ("language_model.model.", "language_model."),
        ("language_model.lm_head.", "lm_head."),
        ("vision_tower.vision_model.", "vision_tower."),
    ),
    hub_prefixes=(
        ("language_model.", "language_model.model."),
        ("lm_head.", "language_model.lm_head."),
        ("vision_tower.", "vision_tower.vision_model."),
    ),
    stop_tokens=LLAMA.stop_tokens,
)
