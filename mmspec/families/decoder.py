"""The config of a decoder, and what of reading it the families share, M-RoPE among it."""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from mmspec.ground.json_file import Block, Range

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
ROPE_TYPES = "rope_type", "type"
"""Keys of the kind of rotary positions, of transformers 5 and before."""
TokenId = Annotated[int, Range(-(2**31), 2**31)]
"""A token, in the vocabulary or not."""


@dataclass(frozen=True, slots=True)
class RotaryScaling:
    """Llama 3's rotary positions: frequencies of long waves are divided by `factor`."""

    factor: Annotated[float, Range(1.0, 1e6)]
    low_freq_factor: Annotated[float, Range(1e-6, 1e6)]
    high_freq_factor: Annotated[float, Range(1e-6, 1e6)]
    original_max_position_embeddings: Positions

    def scale(self, frequencies: NDArray[np.float32]) -> NDArray[np.float32]:
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
    rope: Sequence[str] = ("default",),
    *,
    partial: bool = False,
) -> TextConfig:
    """Read a decoder's sizes; those of absent keys are `defaults`.

    rope: names of the only kinds of rotary positions.  partial: true if a part of a head's features
    may turn.  Raises CheckpointError.
    """
    text.only("hidden_act", ("silu",), "silu")
    text.only("attention_bias", (False,), False)
    text.only("mlp_bias", (False,), False)
    sizes = text.with_values(**dict.fromkeys(_FAMILY_FIELDS))
    config = sizes.record(TextConfig, **asdict(defaults))
    heads = config.num_attention_heads
    if heads % config.num_key_value_heads:
        raise text.error("num_key_value_heads", f"a divisor of num_attention_heads ({heads})")
    if config.head_dim % 2:
        raise text.error("head_dim", "even, for rotary positions turn pairs of features")
    return replace(config, **_rotary(text, defaults.rope_theta, rope, partial=partial))


_FAMILY_FIELDS = (
    "qkv_bias",
    "qk_norm",
    "rotary_axes",
    "rotary_dim",
    "gated",
    "delta_net",
    "rotary_scaling",
)
"""Fields that the family decides, whatever a config.json says under their names."""


def tie_as(whole: Block, text: TextConfig) -> TextConfig:
    """The decoder with its output head tied to the embedding where the whole file says so too."""
    is_tied = whole.flag("tie_word_embeddings", text.tie_word_embeddings)
    return replace(text, tie_word_embeddings=text.tie_word_embeddings or is_tied)


def divide_width(text: Block, defaults: TextConfig) -> TextConfig:
    """`defaults` with the heads' number and width, if the hidden size is to be divided among them.

    Raises CheckpointError if it does not divide.
    """
    width = text.read("hidden_size", Width, defaults.hidden_size)
    heads = text.read("num_attention_heads", Heads, defaults.num_attention_heads)
    if width % heads:
        raise text.error("hidden_size", f"a multiple of num_attention_heads ({heads})")
    return replace(defaults, num_attention_heads=heads, head_dim=width // heads)


def _rotary(text: Block, default: float, kinds: Sequence[str], *, partial: bool) -> dict[str, Any]:
    """Base and scaling: from transformers 5's `rope_parameters`, else from the older keys."""
    blocks = [text.block(key) for key in ("rope_parameters", "rope_scaling")]
    pairs = [(rope, rope.only(key, kinds, "default")) for rope in blocks for key in ROPE_TYPES]
    llama3 = next((rope for rope, kind in pairs if kind == LLAMA_3), None)
    scaling = llama3.record(RotaryScaling) if llama3 else None
    if llama3 and scaling and scaling.high_freq_factor <= scaling.low_freq_factor:
        raise llama3.error("high_freq_factor", f"over {scaling.low_freq_factor:g}")
    for block in () if partial else (text, *blocks):
        block.only("partial_rotary_factor", (1.0,), 1.0)
    theta = text.read("rope_theta", RotaryBase, default)
    base = blocks[0].read("rope_theta", RotaryBase, theta)
    return {"rope_theta": base, "rotary_scaling": scaling}


def rope_block(text: Block) -> Block:
    """Where a decoder's rotary positions are: transformers 5's `rope_parameters`, or before."""
    return text.block("rope_parameters" if text.get("rope_parameters") else "rope_scaling")


def _sections(rope: Block, default: Sequence[int]) -> tuple[int, ...]:
    """How many frequencies turn by time, by row and by column."""
    count = Annotated[int, Range(0, 1_000_000)]
    sections: tuple[int, ...] = rope.read("mrope_section", tuple[count, count, count], default)
    return sections


def chunked_axes(text: Block, head_dim: int, default: Sequence[int]) -> tuple[int, ...]:
    """What turns each frequency of a head, in chunks.  Raises CheckpointError."""
    rope = rope_block(text)
    axes = _in_chunks(_sections(rope, default))
    if len(axes) != head_dim // 2:
        raise rope.error("mrope_section", f"three numbers of sum {head_dim // 2}")
    return axes


def interleaved_axes(text: Block, count: int, default: Sequence[int]) -> tuple[int, ...]:
    """What turns each of `count` frequencies, interleaved.  Raises CheckpointError.

    Row and column take every third frequency, from the second and third on, as far as their
    sections reach; time has all others.
    """
    rope = rope_block(text)
    rope.only("mrope_interleaved", (True,), True)
    reach = [3 * section for section in _sections(rope, default)]
    return tuple(index % 3 if index < reach[index % 3] else 0 for index in range(count))


def optional_axes(text: Block, head_dim: int) -> tuple[int, ...]:
    """The axis that turns each frequency, by the config; empty for one position a token.

    As in vLLM, `mrope_section` says that there are three, whatever the kind is called.
    """
    rope = rope_block(text)
    if rope.get("mrope_section") is None:
        if "mrope" in map(rope.get, ROPE_TYPES):
            raise rope.error("mrope_section", f"three numbers of sum {head_dim // 2}")
        return ()
    axes = chunked_axes(text, head_dim, ())
    if rope.flag("mrope_interleaved", False):
        return interleaved_axes(text, len(axes), ())
    return axes


def describe_axes(axes: Sequence[int]) -> dict[str, object]:
    """The `rope_scaling` from which `optional_axes` reads these axes."""
    sections = [axes.count(axis) for axis in range(3)]
    is_interleaved = tuple(axes) != _in_chunks(sections)
    return {"rope_type": "default", "mrope_section": sections, "mrope_interleaved": is_interleaved}


def _in_chunks(sections: Sequence[int]) -> tuple[int, ...]:
    """For each frequency, what turns it: first those of time, then of row, then of column."""
    return tuple(axis for axis, size in enumerate(sections) for _ in range(size))
