"""The decoder of Llama and Qwen over plain weight tensors, with rows and fused projections.

Shape letters: R rows, n tokens per row, H width, V vocabulary.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain, repeat
from typing import Any

import mlx.core as mx

from mmspec.checkpoints.manifest import EMBEDDING, LM_HEAD
from mmspec.decoding.block_attention import Places, whole_blocks
from mmspec.decoding.delta_net import new_states
from mmspec.families.decoder import TextConfig
from mmspec.ground.arrays import Enter, Positions, behind_norm
from mmspec_mlx.device import device_io
from mmspec_mlx.device.framework import framework
from mmspec_mlx.device.kernels import kernels
from mmspec_mlx.device.weights import Linear, Weights
from mmspec_mlx.network.attention import Attention, Visible, causal
from mmspec_mlx.network.cache import Cache, LayerMemory
from mmspec_mlx.network.delta_layer import DeltaLayer
from mmspec_mlx.network.rotary import Rotary, Rotation


class MLP:
    """SwiGLU; gate_proj and up_proj are one product."""

    def __init__(self, gate_up_proj: Linear, down_proj: Linear, dtype: mx.Dtype) -> None:
        self.gate_up_proj, self.down_proj = gate_up_proj, down_proj
        self._swiglu = kernels(dtype).swiglu

    def __call__(self, x: mx.array) -> mx.array:
        """Return the MLP's output [..., H] for x [..., H]."""
        gate, up = mx.split(self.gate_up_proj(x), 2, axis=-1)
        return self.down_proj(self._swiglu(gate, up))


@dataclass(frozen=True, slots=True)
class DecoderLayer:
    """Attention and MLP, each behind its norm."""

    enter: Enter[mx.array]
    self_attn: Any
    """`Attention` or `DeltaLayer`."""
    post_attention_layernorm: Linear
    mlp: MLP

    @classmethod
    def take(
        cls,
        weights: Weights,
        path: str,
        config: TextConfig,
        *,
        enter: Enter[mx.array] | None = None,
        is_recurrent: bool = False,
    ) -> "DecoderLayer":
        """Take the tensors of the layer at `path`.

        enter: what attention reads of the input and is added to; None takes the input's norm.
        """

        def norm(name: str) -> Linear:
            weight = weights.array(f"{path}.{name}.weight")
            return kernels(weights.dtype).rms_norm(weight, config.rms_norm_eps)

        def linear(*names: str) -> Linear:
            return weights.decoding_linear(*(f"{path}.{name}" for name in names))

        mixer: Attention | DeltaLayer
        if is_recurrent:
            mixer = DeltaLayer.take(weights, f"{path}.linear_attn", config)
        else:
            mixer = Attention.take(weights, f"{path}.self_attn", config)
        gate_up_proj = linear("mlp.gate_proj", "mlp.up_proj")
        return cls(
            enter or behind_norm(norm("input_layernorm")),
            mixer,
            norm("post_attention_layernorm"),
            MLP(gate_up_proj, linear("mlp.down_proj"), weights.dtype),
        )

    def __call__(
        self,
        x: mx.array,
        rotate: Rotation,
        cache: LayerMemory,
        visible: Visible,
        context: mx.array | None = None,
    ) -> mx.array:
        """Feed x [R, n, H]; returns the layer's output [R, n, H].  context: as in `Attention`."""
        normed, residual = self.enter(x)
        x = residual + self.self_attn(normed, rotate, cache, visible, context)
        return x + self.mlp(self.post_attention_layernorm(x))


class Decoder:
    """The decoder layers with their rotary positions, without embedding, last norm and head."""

    def __init__(self, layers: Sequence[DecoderLayer], config: TextConfig, dtype: mx.Dtype) -> None:
        self.config = config
        self.dtype = dtype
        self.kernels = kernels(dtype)
        self.framework = framework(self.kernels)
        width = config.rotary_dim or config.head_dim
        self.rotary = Rotary(
            width, config.rope_theta, dtype, config.rotary_axes, config.rotary_scaling
        )
        self.layers = layers

    def new_cache(self, rows: int) -> Cache:
        """Return an empty cache for R rows."""
        config, states = self.config, None
        if config.delta_net:
            if rows > 1:
                raise ValueError(f"a recurrent model has one row, not {rows}")
            states = new_states(self.framework, config.delta_net, self.dtype)
        heads, width = config.num_key_value_heads, config.head_dim
        attention = sum(isinstance(layer.self_attn, Attention) for layer in self.layers)
        return Cache(attention, rows, heads, width, self.dtype, states)

    def feed(
        self,
        x: mx.array,
        cache: Cache,
        at: int,
        rotate: Rotation,
        visible: Visible,
        deepstack: Sequence[mx.array] = (),
        captured: Sequence[int] = (),
    ) -> mx.array:
        """Run embeddings x [R, n, H] through the layers, at columns `at` to at + n.

        rotate: the rotation of their positions.  deepstack: what is added to the outputs
        [R, n, H] of the first layers.  captured: layers whose outputs are returned too, ascending;
        0 is the embedding.  Returns hidden states [R, n, H] before the last norm, beside them the
        captured ones, [R, n, (1 + c) H].
        """
        end = at + x.shape[1]
        columns = whole_blocks(end) if isinstance(visible, Places) else end
        added, outputs = chain(deepstack, repeat(None)), []
        layers = zip(self.layers, cache.layers(at, columns), added, strict=False)
        for before, (layer, memory, extra) in enumerate(layers):
            if before in captured:
                outputs.append(x)
            x = layer(x, rotate, memory, visible)
            x = x if extra is None else x + extra
            self.kernels.ahead(x)
        if len(self.layers) in captured:
            outputs.append(x)
        return mx.concatenate([x, *outputs], axis=-1) if outputs else x

    def append(
        self, rows: mx.array, cache: Cache, at: int, positions: Positions | None = None
    ) -> mx.array:
        """Feed one sequence's embeddings [n, H] from column `at` on, with a causal mask.

        positions: rotary positions [3, n]; None if they are the columns.  Returns hidden states
        [n, H] before the last norm.
        """
        mask = causal(at, len(rows), rows.dtype)
        if positions is None:
            turn = self.rotary.at([at], len(rows))
        else:
            turn = self.rotary.planes(positions[None])
        return self.feed(mx.expand_dims(rows, 0), cache, at, turn, mask)[0]


class LanguageModel(Decoder):
    """A decoder with its embedding, last norm and output head."""

    def __init__(self, weights: Weights, config: TextConfig) -> None:
        self.embedding = weights.table(EMBEDDING)
        paths = (f"language_model.layers.{index}" for index in range(config.num_hidden_layers))
        recurrent = config.delta_net.layers if config.delta_net else ()
        layers = [
            DecoderLayer.take(weights, path, config, is_recurrent=layer in recurrent)
            for layer, path in enumerate(paths)
        ]
        super().__init__(layers, config, weights.dtype)
        last = weights.array("language_model.norm.weight")
        self._norm = self.kernels.rms_norm(last, config.rms_norm_eps)
        tied = config.tie_word_embeddings
        self._head = weights.for_few_rows(self.embedding if tied else weights.matrix(LM_HEAD))

    def embed(self, tokens: mx.array) -> mx.array:
        """Return the embeddings [n, H] of drafted ids [n].

        Starts computing the ids, while the host enqueues the operations that follow.
        """
        device_io.start(tokens)
        return self.embedding.rows(tokens)

    def states(self, x: mx.array) -> mx.array:
        """Return the last norm's output for x [..., H], which the output head reads."""
        return self._norm(x)

    def project(self, states: mx.array) -> mx.array:
        """Return float32 logits [..., V] of normalised hidden states [..., H]."""
        return self._head(states).astype(mx.float32)

    def logits(self, x: mx.array) -> mx.array:
        """Return float32 logits [..., V] of hidden states [..., H]."""
        return self.project(self.states(x))
