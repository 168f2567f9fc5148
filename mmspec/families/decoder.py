"""The config of a decoder, and what of reading it the families share."""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from mmspec.ground.json_file import Block
from mmspec.ground.limits import Range

# Far beyond any model, and small enough that listing a model's tensors takes no time.
Width = Annotated[int, Range(1, 1_000_000)]
"""A number of features."""
Layers = Annotated[int, Range(1, 1000)]
Heads = Annotated[int, Range(1, 10_000)]
Vocabulary = Annotated[int, Range(1, 100_000_000)]
Positions = Annotated[int, Range(1, 1_000_000_000)]
Window = Annotated[int, Range(2, 64)]
"""Columns that a short convolution reads."""
Epsilon = Annotated[float, Range(1e-30, 1.0)]
RotaryBase = Annotated[float, Range(1.0, 1e15)]
LLAMA_3 = "llama3"
"""The name of Llama 3's scaled rotary positions."""
TokenId = Annotated[int, Range(-(2**31), 2**31)]
"""A token, in the vocabulary or not."""


@dataclass(frozen=True, slots=True)
class RotaryScaling:
    """Llama 3's rotary positions: frequencies of long waves are divided by `factor`."""

    factor: Annotated[float, Range(1.0, 1e6)]
    low_freq_factor: Annotated[float, Range(1e-6, 1e6)]
    high_freq_factor: Annotated[float, Range(1e-6, 1e6)]
    original_max_position_embeddings: Positions

    def scaled(self, frequencies: NDArray[np.float32]) -> NDArray[np.float32]:
        """The frequencies of the scaled positions, float32 as in transformers.

        Waves that go round once in the original context are divided by the factor, those that go
        round often are not, and between the two the share changes evenly.
        """
        turns = self.original_max_position_embeddings / (2 * math.pi / frequencies)
        low, high = self.low_freq_factor, self.high_freq_factor
        share = np.clip((turns - low) / (high - low), 0, 1)
        return ((1 - share) * frequencies / self.factor + share * frequencies).astype(np.float32)


@dataclass(frozen=True)
class DeltaNetConfig:
    """Gated DeltaNet: what some layers of a decoder have in place of attention."""

    layers: tuple[int, ...]
    """Numbers of these layers, ascending."""
    key_heads: Heads
    value_heads: Heads
    """A multiple of `key_heads`."""
    key_dim: Width
    value_dim: Width
    window: Window

    @property
    def channels(self) -> int:
        """Numbers of a row that the convolution reads: queries, keys and values."""
        return 2 * self.key_heads * self.key_dim + self.value_heads * self.value_dim


@dataclass(frozen=True)
class TextConfig:
    """A Llama or Qwen decoder.

    `qkv_bias`, `qk_norm`: queries, keys and values have biases; queries and keys are normalised per
    head. `rotary_axes`: for each rotary frequency, what turns it: 0 time, 1 row, 2 column (M-RoPE);
    empty if all turn by one position. `rotary_dim`: features of a head that turn, the first ones; 0
    for all. `gated`: attention's output is multiplied by gates, which are outputs of q_proj.
    """

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
    qkv_bias: bool = False
    qk_norm: bool = False
    rotary_axes: tuple[int, ...] = ()
    rotary_dim: int = 0
    gated: bool = False
    delta_net: DeltaNetConfig | None = None
    rotary_scaling: RotaryScaling | None = None

    @property
    def attention_layers(self) -> int:
        """Number of layers that have keys and values."""
        return self.num_hidden_layers - len(self.delta_net.layers if self.delta_net else ())


def read_sizes(
    text: Block,
    defaults: TextConfig,
    tied: bool,
    rope: Sequence[str] = ("default",),
    *,
    partial: bool = False,
) -> TextConfig:
    """Read a decoder's sizes; those of absent keys are `defaults`.

    tied: true if the output head is the embedding.  rope: names of the only kinds of rotary
    positions.  partial: true if a part of a head's features may turn.  Raises CheckpointError.
    """
    text.only("hidden_act", ("silu",), "silu")
    text.only("attention_bias", (False,), False)
    text.only("mlp_bias", (False,), False)
    own: dict[str, Any] = {"rotary_axes": [], "delta_net": None}
    config = text.record(TextConfig, **asdict(defaults) | own)
    heads = config.num_attention_heads
    if heads % config.num_key_value_heads:
        raise text.error("num_key_value_heads", f"a divisor of num_attention_heads ({heads})")
    if config.head_dim % 2:
        raise text.error("head_dim", "even, for rotary positions turn pairs of features")
    return replace(
        config,
        rope_theta=_rotary_base(text, defaults.rope_theta, rope, partial=partial),
        rotary_scaling=_rotary_scaling(text),
        tie_word_embeddings=tied,
        delta_net=None,
        **{name: getattr(defaults, name) for name in _OWN},
    )


_OWN = ("qkv_bias", "qk_norm", "rotary_axes", "rotary_dim", "gated")
"""Fields that the family decides, whatever a config.json says under their names."""


def divided_width(text: Block, defaults: TextConfig) -> TextConfig:
    """`defaults` with the heads' number and width, if the hidden size is to be divided among them.

    Raises CheckpointError if it does not divide.
    """
    hidden = text.read("hidden_size", Width, defaults.hidden_size)
    heads = text.read("num_attention_heads", Heads, defaults.num_attention_heads)
    if hidden % heads:
        raise text.error("hidden_size", f"a multiple of num_attention_heads ({heads})")
    return replace(defaults, num_attention_heads=heads, head_dim=hidden // heads)


def _rotary_base(text: Block, default: float, kinds: Sequence[str], *, partial: bool) -> float:
    """The rotary base: transformers 5's `rope_parameters`, else the older `rope_theta`."""
    blocks = [text.block(key) for key in ("rope_parameters", "rope_scaling")]
    for rope in blocks:
        rope.only("rope_type", kinds, "default")
        rope.only("type", kinds, "default")
    for block in () if partial else (text, *blocks):
        block.only("partial_rotary_factor", (1.0,), 1.0)
    theta = text.read("rope_theta", RotaryBase, default)
    base: float = text.block("rope_parameters").read("rope_theta", RotaryBase, theta)
    return base


def _rotary_scaling(text: Block) -> RotaryScaling | None:
    for key in ("rope_parameters", "rope_scaling"):
        rope = text.block(key)
        if LLAMA_3 in (rope.get("rope_type"), rope.get("type")):
            scaling = rope.record(RotaryScaling)
            if scaling.high_freq_factor <= scaling.low_freq_factor:
                raise rope.error("high_freq_factor", f"over {scaling.low_freq_factor:g}")
            return scaling
    return None
