"""The decoder of Llama and Qwen over plain weight tensors, with rows and fused projections.

Shape letters: R rows, n tokens per row, H width, V vocabulary.
"""

from collections.abc import Sequence
from itertools import chain, repeat

import mlx.core as mx

from mmspec.checkpoints.manifest import EMBEDDING, LM_HEAD
from mmspec.decoding.block_attention import Places, whole_blocks
from mmspec.decoding.delta_states import DeltaMemory
from mmspec.decoding.layers import DeltaParts, LayerParts, empty_states
from mmspec.families.decoder import TextConfig
from mmspec.ground.arrays import Positions
from mmspec_mlx.device import device_io
from mmspec_mlx.device.kernels import kernels
from mmspec_mlx.device.weights import Linear, Weights
from mmspec_mlx.network.attention import Attention, Visible, causal
from mmspec_mlx.network.cache import Cache, LayerMemory
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


class DeltaLayer(DeltaParts[mx.array]):
    """A layer of Gated DeltaNet."""

    def __call__(
        self,
        x: mx.array,
        rotate: Rotation,  # noqa: ARG002
        memory: DeltaMemory[mx.array],
        *_: object,
    ) -> mx.array:
        """Return the output [1, n, H] for x [1, n, H]."""
        output: mx.array = self._out_proj(self._net(self._in_proj(x)[0], memory))
        return mx.expand_dims(output, 0)


class DecoderLayer(LayerParts[mx.array]):
    """A layer of the decoder."""

    __slots__ = ()

    attention, recurrent = Attention, DeltaLayer
    new_mlp = staticmethod(lambda weights, first, second: MLP(first, second, weights.dtype))

    def __call__(
        self,
        x: mx.array,
        rotate: Rotation,
        cache: LayerMemory,
        visible: Visible,
        context: mx.array | None = None,
    ) -> mx.array:
        """Feed x [R, n, H]; returns the layer's output [R, n, H].  context: as in `Attention`."""
        inputs, residual = self.enter(x)
        x = residual + self.self_attn(inputs, rotate, cache, visible, context)
        return x + self.mlp(self.post_attention_layernorm(x))


class Decoder:
    """The decoder layers with their rotary positions, without embedding, last norm and head."""

    def __init__(
        self, layers: Sequence[DecoderLayer], config: TextConfig, weights: Weights
    ) -> None:
        """weights: those of the layers, whose dtype the decoder has."""
        dtype = weights.dtype
        self.config, self.dtype, self.kernels = config, dtype, kernels(dtype)
        self.framework = weights.framework
        width = config.rotary_dim or config.head_dim
        self.rotary = Rotary(
            width, config.rope_theta, dtype, config.rotary_axes, config.rotary_scaling
        )
        self.layers = layers

    def new_cache(self, rows: int) -> Cache:
        """Return an empty cache for R rows."""
        config = self.config
        states = empty_states(self.framework, config, rows, self.dtype)
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
        captured_layers: Sequence[int] = (),
    ) -> mx.array:
        """Feed embeddings x [R, n, H] to columns `at` onwards; returns the last layer's output.

        rotate: the rotation of their positions.  deepstack: what is added to the outputs
        [R, n, H] of the first layers.  captured_layers: those whose outputs are put beside the
        last one's, [R, n, (1 + c) H], ascending; 0 is the embedding.
        """
        end = at + x.shape[1]
        columns = whole_blocks(end) if isinstance(visible, Places) else end
        extras, outputs = chain(deepstack, repeat(None)), []
        layers = zip(self.layers, cache.layers(at, columns), extras, strict=False)
        for before, (layer, memory, extra) in enumerate(layers):
            if before in captured_layers:
                outputs.append(x)
            x = layer(x, rotate, memory, visible)
            x = x if extra is None else x + extra
            self.kernels.ahead(x)
        if len(self.layers) in captured_layers:
            outputs.append(x)
        return mx.concatenate([x, *outputs], axis=-1) if outputs else x

    def append(
        self, rows: mx.array, cache: Cache, at: int, positions: Positions | None = None
    ) -> mx.array:
        """Feed one row's embeddings [n, H]; returns the last layer's output [n, H].

        positions: rotary positions [3, n]; None if they are the columns.
        """
        mask = causal(at, len(rows), rows.dtype)
        if positions is None:
            rotation = self.rotary.at([at], len(rows))
        else:
            rotation = self.rotary.planes(positions[None])
        return self.feed(mx.expand_dims(rows, 0), cache, at, rotation, mask)[0]


class LanguageModel(Decoder):
    """A decoder with its embedding, last norm and output head."""

    def __init__(self, weights: Weights, config: TextConfig) -> None:
        self.embedding = weights.table(EMBEDDING)
        super().__init__(DecoderLayer.take_all(weights, config), config, weights)
        self._norm = weights.norm("language_model.norm", config.rms_norm_eps)
        is_tied = config.tie_word_embeddings
        self._head = weights.for_few_rows(self.embedding if is_tied else weights.matrix(LM_HEAD))

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
