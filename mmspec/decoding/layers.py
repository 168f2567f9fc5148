"""Takes the layers of a decoder from a checkpoint's tensors; each backend adds their forwards.

Shape letters: R rows, n tokens of a row, H width, g heads, D head size.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, Protocol, Self

from mmspec.decoding.delta_net import TENSORS, DeltaNet, DeltaNetWeights, new_states
from mmspec.decoding.delta_states import DeltaStates
from mmspec.decoding.framework import Framework
from mmspec.families.decoder import TextConfig
from mmspec.ground.arrays import A, Enter, Map, behind_norm


class LayerTensors(Protocol[A]):
    """A checkpoint's tensors by their paths, in the activations' dtype; each is taken once."""

    dtype: Any

    @property
    def framework(self) -> Framework[A]:
        """The array functions of the framework that holds the tensors."""

    def tensor(self, name: str) -> A:
        """The tensor called `name`."""

    def linear(self, *paths: str, bias: bool = True) -> Map[A]:
        """Function that applies the linear layers at `paths` and concatenates their outputs."""

    def norm(self, path: str, eps: float) -> Map[A]:
        """The root-mean-square norm at `path`."""

    def heads_norm(self, weight: A, eps: float) -> Map[A]:
        """The root-mean-square norm of heads [..., g, D] with a weight [g, D]."""


class AttentionParts(Generic[A]):
    """Self-attention's tensors; q_proj, k_proj and v_proj are one product."""

    def __init__(
        self,
        framework: Framework[A],
        qkv_proj: Any,
        o_proj: Any,
        config: TextConfig,
        qk_norm: Any = None,
    ) -> None:
        """qk_norm: normalises the heads [..., heads + KV heads, D] of queries and keys; or None."""
        self.qkv_proj, self.o_proj, self._qk_norm = qkv_proj, o_proj, qk_norm
        self._framework, self._has_gates = framework, config.gated
        self._heads, self._kv_heads = config.num_attention_heads, config.num_key_value_heads
        self._head_dim = config.head_dim

    @classmethod
    def take(cls, tensors: LayerTensors[A], path: str, config: TextConfig) -> Self:
        """Take the tensors at `path`."""
        framework, norm = tensors.framework, None
        parts = (f"{path}.{part}_proj" for part in "qkv")
        qkv_proj = tensors.linear(*parts, bias=config.qkv_bias)
        if config.qk_norm:
            pairs = (("q", config.num_attention_heads), ("k", config.num_key_value_heads))
            weights = [
                framework.xp.broadcast_to(
                    tensors.tensor(f"{path}.{part}_norm.weight"), (count, config.head_dim)
                )
                for part, count in pairs
            ]
            norm = tensors.heads_norm(framework.concat(weights, 0), config.rms_norm_eps)
        return cls(framework, qkv_proj, tensors.linear(f"{path}.o_proj", bias=False), config, norm)

    def _split_gates(self, qkv: Any) -> tuple[Any, Any]:
        """Queries, keys and values [R, n, heads + 2 KV heads, D], and gates [R, n, heads, D]."""
        if not self._has_gates:
            return qkv, None
        count = 2 * self._heads  # a query, then its gate
        queries, gates = qkv[:, :, :count:2], qkv[:, :, 1:count:2]
        return self._framework.concat([queries, qkv[:, :, count:]], 2), gates


class DeltaParts(Generic[A]):
    """Gated DeltaNet with its projections."""

    def __init__(self, in_proj: Any, out_proj: Any, net: DeltaNet[A]) -> None:
        """in_proj: in_proj_qkv, in_proj_z, in_proj_b and in_proj_a."""
        self._in_proj, self._out_proj, self._net = in_proj, out_proj, net

    @classmethod
    def take(cls, tensors: LayerTensors[A], path: str, config: TextConfig) -> Self:
        """Take the tensors at `path`."""
        if config.delta_net is None:
            raise ValueError("this decoder has no Gated DeltaNet")
        parts = (f"{path}.in_proj_{part}" for part in ("qkv", "z", "b", "a"))
        weights = DeltaNetWeights(*(tensors.tensor(f"{path}.{name}") for name in TENSORS))
        net = DeltaNet(tensors.framework, config.delta_net, weights, config.rms_norm_eps)
        out_proj = tensors.linear(f"{path}.out_proj", bias=False)
        return cls(tensors.linear(*parts, bias=False), out_proj, net)


@dataclass(frozen=True, slots=True)
class LayerParts(Generic[A]):
    """Attention and MLP, each behind its norm."""

    attention: ClassVar[type[AttentionParts[Any]]]
    recurrent: ClassVar[type[DeltaParts[Any]]]
    new_mlp: ClassVar[Callable[..., Any]]
    """From the tensors, gate_proj and up_proj as one product, and down_proj to the MLP."""

    enter: Enter[A]
    self_attn: Callable[..., A]
    post_attention_layernorm: Map[A]
    mlp: Callable[..., A]

    @classmethod
    def take(
        cls,
        tensors: LayerTensors[A],
        path: str,
        config: TextConfig,
        *,
        enter: Enter[A] | None = None,
        is_recurrent: bool = False,
    ) -> Self:
        """Take the tensors of the layer at `path`.

        enter: what attention reads of the input and is added to; None takes the input's norm.
        """

        def norm(name: str) -> Map[A]:
            return tensors.norm(f"{path}.{name}", config.rms_norm_eps)

        def linear(*names: str) -> Map[A]:
            return tensors.linear(*(f"{path}.mlp.{name}" for name in names), bias=False)

        mixer: Any = (
            cls.recurrent.take(tensors, f"{path}.linear_attn", config)
            if is_recurrent
            else cls.attention.take(tensors, f"{path}.self_attn", config)
        )
        gate_up_proj = linear("gate_proj", "up_proj")
        return cls(
            enter or behind_norm(norm("input_layernorm")),
            mixer,
            norm("post_attention_layernorm"),
            cls.new_mlp(tensors, gate_up_proj, linear("down_proj")),
        )

    @classmethod
    def take_all(cls, tensors: LayerTensors[A], config: TextConfig) -> list[Self]:
        """Take all layers of a language model."""
        recurrent = config.delta_net.layers if config.delta_net else ()
        return [
            cls.take(tensors, f"language_model.layers.{n}", config, is_recurrent=n in recurrent)
            for n in range(config.num_hidden_layers)
        ]


def empty_states(
    framework: Framework[A], config: TextConfig, rows: int, dtype: Any
) -> DeltaStates[A] | None:
    """The states of recurrent layers in an empty cache of `rows` rows; None without any."""
    if config.delta_net is None:
        return None
    if rows > 1:
        raise ValueError(f"a recurrent model has one row, not {rows}")
    return new_states(framework, config.delta_net, dtype)
