"""The tensors of a model under canonical names, their names in files, and the memory they take.

The canonical names are those transformers 5 uses in memory, without the leading `model.`:

    vision_tower.…            the tower, as its family lists it
    multi_modal_projector.…   the projector, if the family has one
    language_model.…          embed_tokens, layers.N, norm
    lm_head.weight            absent if it is the embedding itself

Shapes are PyTorch's: linear (out, in), convolution (out, in, height, width).
"""

from math import prod

from mmspec.checkpoints.config import ModelConfig
from mmspec.families.decoder import DeltaNetConfig, TextConfig
from mmspec.families.tower import Shape, Tensors, rename

TOWER = "vision_tower."
"""Beginning of the canonical names of a vision tower."""

LM_HEAD = "lm_head.weight"
EMBEDDING = "language_model.embed_tokens.weight"
SHORT = "linear_attn.conv1d.weight"
"""End of the names of short convolutions' weights, which MLX stores in another axis order."""
MTP_PREFIX = "mtp."
"""Part of the names of a drafter's tensors in its target's files."""
PRECISIONS = (16, 8, 4)
"""Bits of a weight: as published, and as `mmspec models quantize` writes them."""
GROUP = 64
"""Weights that share a scale and an offset of 16 bits each."""


def canonical(name: str, config: ModelConfig) -> str:
    """The canonical name of a tensor stored under `name` in any layout."""
    return rename(name, config.family.stored_prefixes)


def hub_name(name: str, config: ModelConfig) -> str:
    """The name of a canonical tensor in the hub's files and in those of mlx-vlm and mlx-lm."""
    return rename(name, config.family.hub_prefixes)


def is_buffer(name: str) -> bool:
    """True for a stored tensor that a target computes itself, or that belongs to a drafter."""
    return MTP_PREFIX in name or name.endswith(("embeddings.position_ids", "rotary_emb.inv_freq"))


def is_less_one(name: str) -> bool:
    """True for a norm of Qwen3.5's decoder, whose weight transformers stores less one."""
    is_norm = name.startswith("language_model.") and name.endswith("norm.weight")
    return is_norm and not name.endswith("linear_attn.norm.weight")


def manifest(config: ModelConfig) -> dict[str, Shape]:
    """Name and shape of every tensor that must be present and is loaded."""
    return {name: shape for name, shape, is_loaded in _tensors(config) if is_loaded}


def optional(config: ModelConfig) -> dict[str, Shape]:
    """Tensors that are never loaded: a tower's after its feature layer, and a tied `lm_head`."""
    return {name: shape for name, shape, is_loaded in _tensors(config) if not is_loaded}


def _tensors(config: ModelConfig) -> Tensors:
    """Yield name, shape and whether the tensor is loaded, in the order of the forward pass."""
    text = config.text
    if config.vision is not None:
        yield from config.vision.tensors(text)
    yield EMBEDDING, (text.vocab_size, text.hidden_size), True
    for layer in range(text.num_hidden_layers):
        for name, shape in decoder_layer(text, layer).items():
            yield f"language_model.layers.{layer}.{name}", shape, True
    yield "language_model.norm.weight", (text.hidden_size,), True
    yield LM_HEAD, (text.vocab_size, text.hidden_size), not text.tie_word_embeddings


def decoder_layer(text: TextConfig, layer: int = 0) -> dict[str, Shape]:
    """The tensors of one layer of the decoder, in the order of the forward pass."""
    width, inner = text.hidden_size, text.intermediate_size
    delta_net = text.delta_net
    if delta_net and layer in delta_net.layers:
        mixer = _delta_net(delta_net, width)
    else:
        mixer = _attention(text)
    return {
        "input_layernorm.weight": (width,),
        **mixer,
        "post_attention_layernorm.weight": (width,),
        "mlp.gate_proj.weight": (inner, width),
        "mlp.up_proj.weight": (inner, width),
        "mlp.down_proj.weight": (width, inner),
    }


def _attention(text: TextConfig) -> dict[str, Shape]:
    width, queries = text.hidden_size, text.num_attention_heads * text.head_dim
    keys = text.num_key_value_heads * text.head_dim
    outputs = {"q": queries * (2 if text.gated else 1), "k": keys, "v": keys}
    biases = outputs if text.qkv_bias else {}
    norms = ("q_norm", "k_norm") if text.qk_norm else ()
    return {
        **{f"self_attn.{part}_proj.weight": (size, width) for part, size in outputs.items()},
        **{f"self_attn.{part}_proj.bias": (size,) for part, size in biases.items()},
        **{f"self_attn.{norm}.weight": (text.head_dim,) for norm in norms},
        "self_attn.o_proj.weight": (width, queries),
    }


def _delta_net(config: DeltaNetConfig, width: int) -> dict[str, Shape]:
    heads, values = config.value_heads, config.value_heads * config.value_dim
    outputs = {"qkv": config.channels, "z": values, "b": heads, "a": heads}
    tensors = {
        **{f"in_proj_{part}.weight": (size, width) for part, size in outputs.items()},
        "conv1d.weight": (config.channels, 1, config.window),
        "A_log": (heads,),
        "dt_bias": (heads,),
        "norm.weight": (config.value_dim,),
        "out_proj.weight": (width, values),
    }
    return {f"linear_attn.{name}": shape for name, shape in tensors.items()}


def weight_bytes(config: ModelConfig, bits: int) -> int:
    """Bytes of all weights; with fewer than 16 bits the vision tower stays in 16."""
    return sum(_bytes(name, shape, bits) for name, shape in manifest(config).items())


def _bytes(name: str, shape: tuple[int, ...], bits: int) -> int:
    whole = bits == 16 or name.startswith(TOWER) or len(shape) != 2 or shape[1] % GROUP
    return prod(shape) * 2 if whole else prod(shape) * bits // 8 + prod(shape) // GROUP * 4


def cache_bytes(text: TextConfig, positions: int, width: int = 2) -> int:
    """Bytes of the keys and values of this many positions; width: bytes of a number."""
    features = text.num_key_value_heads * text.head_dim
    return 2 * text.attention_layers * features * width * positions


def state_bytes(text: TextConfig, width: int = 2) -> int:
    """Bytes of one state of all recurrent layers, with the convolutions' latest inputs."""
    if text.delta_net is None:
        return 0
    sizes = text.delta_net
    state = 4 * sizes.value_heads * sizes.key_dim * sizes.value_dim
    return len(sizes.layers) * (state + (sizes.window - 1) * sizes.channels * width)
