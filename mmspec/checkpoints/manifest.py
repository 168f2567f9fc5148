"""The tensors of a model under canonical names, and their names in files.

The canonical names are those transformers 5 uses in memory, without the leading `model.`:

    vision_tower.…            the CLIP tower, directly below
    multi_modal_projector.…   linear_1, linear_2
    language_model.…          embed_tokens, layers.N, norm
    lm_head.weight            absent if it is the embedding itself

Shapes are PyTorch's: linear (out, in), convolution (out, in, height, width).
"""

from collections.abc import Iterator

from mmspec.checkpoints.config import ModelConfig, TextConfig, VisionConfig

Shape = tuple[int, ...]

PATCHES = "vision_tower.embeddings.patch_embedding.weight"
"""Name of the only convolution's weight, which MLX stores in another axis order."""

LM_HEAD = "lm_head.weight"
EMBEDDING = "language_model.embed_tokens.weight"

# First match wins. Saved by: transformers 5 in memory, transformers 4 and the hub, MLX
# conversions (as the hub), and Llama alone.
_STORED_PREFIXES = (
    ("model.language_model.", "language_model."),
    ("model.vision_tower.vision_model.", "vision_tower."),
    ("model.vision_tower.", "vision_tower."),
    ("model.multi_modal_projector.", "multi_modal_projector."),
    ("language_model.model.", "language_model."),
    ("language_model.lm_head.", "lm_head."),
    ("vision_tower.vision_model.", "vision_tower."),
    ("model.", "language_model."),
)
_HUB_PREFIXES = {
    "llava": (
        ("language_model.", "language_model.model."),
        ("lm_head.", "language_model.lm_head."),
        ("vision_tower.", "vision_tower.vision_model."),
    ),
    "llama": (("language_model.", "model."),),
}


def canonical(name: str) -> str:
    """The canonical name of a tensor stored under `name` in any layout."""
    return _renamed(name, _STORED_PREFIXES)


def hub_name(name: str, config: ModelConfig) -> str:
    """The name of a canonical tensor in the hub's files and in those of mlx-vlm and mlx-lm."""
    return _renamed(name, _HUB_PREFIXES[config.kind])


def is_buffer(name: str) -> bool:
    """True for a stored tensor that the model computes itself, such as a table of positions."""
    return name.endswith(("embeddings.position_ids", "rotary_emb.inv_freq"))


def manifest(config: ModelConfig) -> dict[str, Shape]:
    """Name and shape of every tensor that must be present and is loaded."""
    return {name: shape for name, shape, needed in _tensors(config) if needed}


def optional(config: ModelConfig) -> dict[str, Shape]:
    """Name and shape of tensors that may be present and are never loaded.

    They are the tower's layers after the feature layer, its last norm, and a tied `lm_head`.
    """
    return {name: shape for name, shape, needed in _tensors(config) if not needed}


def _renamed(name: str, prefixes: tuple[tuple[str, str], ...]) -> str:
    for old, new in prefixes:
        if name.startswith(old):
            return new + name.removeprefix(old)
    return name


def _tensors(config: ModelConfig) -> Iterator[tuple[str, Shape, bool]]:
    """Yield name, shape and whether the tensor is loaded, in the order of the forward pass."""
    if config.vision is not None:
        yield from _tower(config.vision, config.vision_layers)
        yield from _projector(config.vision.hidden_size, config.text.hidden_size)
    yield from _decoder(config.text)


def _tower(vision: VisionConfig, used: int) -> Iterator[tuple[str, Shape, bool]]:
    width, inner, patch = vision.hidden_size, vision.intermediate_size, vision.patch_size
    yield "vision_tower.embeddings.class_embedding", (width,), True
    yield PATCHES, (width, vision.num_channels, patch, patch), True
    position = "vision_tower.embeddings.position_embedding.weight"
    yield position, (vision.positions, width), True
    yield from _affine("vision_tower.pre_layrnorm", width)
    for layer in range(vision.num_hidden_layers):
        path, needed = f"vision_tower.encoder.layers.{layer}", layer < used
        yield from _affine(f"{path}.layer_norm1", width, needed=needed)
        for projection in ("q_proj", "k_proj", "v_proj", "out_proj"):
            yield from _affine(f"{path}.self_attn.{projection}", width, width, needed=needed)
        yield from _affine(f"{path}.layer_norm2", width, needed=needed)
        yield from _affine(f"{path}.mlp.fc1", inner, width, needed=needed)
        yield from _affine(f"{path}.mlp.fc2", width, inner, needed=needed)
    yield from _affine("vision_tower.post_layernorm", width, needed=False)


def _projector(vision: int, text: int) -> Iterator[tuple[str, Shape, bool]]:
    yield from _affine("multi_modal_projector.linear_1", text, vision)
    yield from _affine("multi_modal_projector.linear_2", text, text)


def _affine(path: str, *shape: int, needed: bool = True) -> Iterator[tuple[str, Shape, bool]]:
    """Yield names and shapes of a weight of `shape` and its bias of length shape[0]."""
    yield f"{path}.weight", shape, needed
    yield f"{path}.bias", shape[:1], needed


def _decoder(text: TextConfig) -> Iterator[tuple[str, Shape, bool]]:
    yield EMBEDDING, (text.vocab_size, text.hidden_size), True
    for layer in range(text.num_hidden_layers):
        for name, shape in decoder_layer(text).items():
            yield f"language_model.layers.{layer}.{name}.weight", shape, True
    yield "language_model.norm.weight", (text.hidden_size,), True
    yield LM_HEAD, (text.vocab_size, text.hidden_size), not text.tie_word_embeddings


def decoder_layer(text: TextConfig) -> dict[str, Shape]:
    """The weights of one layer of the decoder, in the order of the forward pass."""
    width, inner = text.hidden_size, text.intermediate_size
    queries = text.num_attention_heads * text.head_dim
    keys = text.num_key_value_heads * text.head_dim
    return {
        "input_layernorm": (width,),
        "self_attn.q_proj": (queries, width),
        "self_attn.k_proj": (keys, width),
        "self_attn.v_proj": (keys, width),
        "self_attn.o_proj": (width, queries),
        "post_attention_layernorm": (width,),
        "mlp.gate_proj": (inner, width),
        "mlp.up_proj": (inner, width),
        "mlp.down_proj": (width, inner),
    }
