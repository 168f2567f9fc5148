"""The decoder of Llama and Qwen over plain weight tensors, for a few rows at a time.

Projections of one input are fused, and keys and values are written together: for few rows the
cost is the number of operations.

Shape letters: R rows, n columns fed, C visible columns, H width, V vocabulary.
Activations are [R * n, H].
"""

from collections.abc import Sequence
from itertools import chain, repeat

import torch
import torch.nn.functional as F
from torch import Tensor

from mmspec.checkpoints.manifest import EMBEDDING, LM_HEAD
from mmspec.decoding.delta_states import DeltaMemory
from mmspec.decoding.layers import DeltaParts, LayerParts, empty_states
from mmspec.families.decoder import TextConfig
from mmspec.ground.arrays import Positions
from mmspec_torch.device.products import Product, product
from mmspec_torch.device.weights import Weights
from mmspec_torch.network import cache
from mmspec_torch.network.attention import Attention, Step, causal_mask, kernels
from mmspec_torch.network.rotary import Angles, Rotary


class MLP:
    """SwiGLU; gate_proj and up_proj are one product."""

    def __init__(self, gate_up_proj: Product, down_proj: Product) -> None:
        self.gate_up_proj, self.down_proj = gate_up_proj, down_proj

    def __call__(self, x: Tensor, residual: Tensor) -> Tensor:
        """Return `residual` plus the MLP's output for x, both [n, H]; may overwrite `residual`."""
        gate, up = self.gate_up_proj(x).chunk(2, dim=-1)
        return self.down_proj.add(F.silu(gate).mul_(up), residual)


class DeltaLayer(DeltaParts[Tensor]):
    """A layer of Gated DeltaNet."""

    def __call__(self, x: Tensor, residual: Tensor, memory: DeltaMemory[Tensor], _: Step) -> Tensor:
        """Return `residual` plus the output for x [n, H]; may overwrite `residual`."""
        output: Tensor = self._out_proj.add(self._net(self._in_proj(x), memory), residual)
        return output


class DecoderLayer(LayerParts[Tensor]):
    """A layer of the decoder."""

    __slots__ = ()

    attention, recurrent = Attention, DeltaLayer
    new_mlp = staticmethod(lambda _, *products: MLP(*products))

    def __call__(self, x: Tensor, memory: cache.LayerMemory, step: Step) -> Tensor:
        """Feed x [R * n, H], which may be overwritten; returns the layer's output."""
        x = self.self_attn(*self.enter(x), memory, step)
        return self.mlp(self.post_attention_layernorm(x), x)


class Decoder:
    """The decoder layers with their rotary positions, without embedding, last norm and head."""

    def __init__(
        self, layers: Sequence[DecoderLayer], config: TextConfig, weights: Weights
    ) -> None:
        """weights: those of the layers, whose device and dtype the decoder has."""
        self.config, self.layers, self.framework = config, layers, weights.framework
        self.device, self.dtype = weights.device, weights.dtype
        self.rotary = Rotary(config, self.device, self.dtype)

    def new_cache(self, rows: int) -> cache.Cache:
        """Return an empty cache for `rows` rows."""
        text = self.config
        states = empty_states(self.framework, text, rows, self.dtype)
        attention = sum(isinstance(layer.self_attn, Attention) for layer in self.layers)
        sizes = attention, rows, text.num_key_value_heads, text.head_dim
        return cache.Cache(*sizes, self.device, self.dtype, states)

    def forward(self, x: Tensor, step: Step) -> Tensor:
        """Feed embeddings [R * n, H], which may be overwritten; returns the last layer's output.

        The outputs of the step's captured layers are put beside it, [R * n, (1 + c) H].
        """
        extras, outputs = chain(step.deepstack, repeat(None)), []
        layers = zip(self.layers, step.layers, extras, strict=False)
        with kernels(x, step):
            for before, (layer, memory, extra) in enumerate(layers):
                if before in step.captured_layers:
                    outputs.append(x.clone())
                x = layer(x, memory, step)
                if extra is not None:
                    x += extra
        if len(self.layers) in step.captured_layers:
            outputs.append(x)
        return torch.cat((x, *outputs), dim=-1) if outputs else x

    def append(
        self, x: Tensor, memory: cache.Cache, start: int, positions: Positions | None = None
    ) -> Tensor:
        """Feed one row's embeddings [n, H]; returns the last layer's output [n, H].

        x may be overwritten.  positions: rotary positions [3, n]; None if they are the columns.
        """
        if positions is None:
            return self.follow(x, memory, start, self.rotary.run(start, start + len(x)))
        return self.follow(x, memory, start, self.rotary.planes(positions[None]))

    def follow(
        self,
        x: Tensor,
        memory: cache.Cache,
        start: int,
        angles: Angles,
        padding: Tensor | None = None,
        deepstack: Sequence[Tensor] = (),
        captured_layers: Sequence[int] = (),
    ) -> Tensor:
        """Feed embeddings [R * n, H] to columns `start` onwards, with a causal mask.

        x may be overwritten.  padding: mask [R, 1, 1, C or more] that hides it; None if none.
        deepstack, captured_layers: see `Step`.  Returns what `forward` does.
        """
        count = len(x) // memory.rows
        end = start + count
        mask = None if padding is None else padding[..., :end]
        if count > 1 and (start or mask is not None):
            order = causal_mask(start, end, x)
            mask = order if mask is None else mask + order
        causal, layers = count > 1 and mask is None, memory.layers(start, end)
        step = Step(angles, layers, mask, causal, None, deepstack, captured_layers)
        return self.forward(x, step)


class LanguageModel(Decoder):
    """A decoder with its embedding, last norm and output head."""

    def __init__(self, weights: Weights, config: TextConfig) -> None:
        self.embedding = weights.tensor(EMBEDDING)
        super().__init__(DecoderLayer.take_all(weights, config), config, weights)
        self._norm = weights.norm("language_model.norm", config.rms_norm_eps)
        # Never quantized: it is read once per token, and rounding would change close decisions.
        is_tied = config.tie_word_embeddings
        self._head = product(self.embedding if is_tied else weights.tensor(LM_HEAD))

    def embed(self, ids: Tensor) -> Tensor:
        """Return the embeddings [n, H] of ids [n]."""
        return F.embedding(ids, self.embedding)

    def states(self, x: Tensor) -> Tensor:
        """Return the last norm's output for x [n, H], which the output head reads."""
        return self._norm(x)

    def project(self, states: Tensor) -> Tensor:
        """Return the logits [n, V] of hidden states [n, H]."""
        return self._head(states)
