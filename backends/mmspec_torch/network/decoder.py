"""The decoder of Llama and Qwen over plain weight tensors, for a few rows at a time.

Projections of one input are fused, and keys and values are written together: for few rows the
cost is the number of operations.

Shape letters: R rows, n columns fed, C visible columns, H width, D head size, V vocabulary.
Activations are [R * n, H].
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain, repeat
from typing import Any, NamedTuple

import array_api_compat.torch as xp
import torch
import torch.nn.functional as F
from torch import Tensor

from mmspec.checkpoints.manifest import EMBEDDING, LM_HEAD
from mmspec.decoding.block_attention import Places, attend
from mmspec.decoding.delta_net import new_states
from mmspec.families.decoder import TextConfig
from mmspec.ground.arrays import Enter, Positions, behind_norm
from mmspec_torch.device.framework import framework
from mmspec_torch.device.norms import Norm, rms_norm
from mmspec_torch.device.products import Product, product
from mmspec_torch.device.weights import Weights
from mmspec_torch.network import cache
from mmspec_torch.network.delta_layer import DeltaLayer
from mmspec_torch.network.rotary import Angles, Rotary, rotate


class Step(NamedTuple):
    """Positions, cache columns and mask of one forward."""

    angles: Angles
    layers: Sequence[cache.LayerMemory]
    """The part of the cache that each layer writes and sees."""
    mask: Tensor | None = None
    """Mask added to the attention scores, broadcast to [R, heads, n, C]."""
    causal: bool = False
    """True to attend causally from column 0 on, which needs no mask."""
    places: Places | None = None
    """The places of one sequence's rows if attention is by blocks; then there is no mask."""
    deepstack: Sequence[Tensor] = ()
    """What is added to the outputs [R * n, H] of the first layers, where images are."""
    captured: Sequence[int] = ()
    """Layers whose outputs are returned too, ascending; 0 is the embedding."""
    context: Tensor | None = None
    """Rows [n, H] before those fed, which attention sees as they are and which see nothing."""


def causal_mask(start: int, end: int, like: Tensor) -> Tensor:
    """Return the causal mask [n, C] of columns `start` to `end`."""
    return like.new_full((end - start, end), hidden(like.dtype)).triu_(start + 1)


def tree_mask(start: int, visible: Tensor, like: Tensor) -> Tensor:
    """Return a mask [n, start + n]: all before `start` is visible, then `visible` [n, n]."""
    shades = like.new_zeros(visible.shape).masked_fill_(~visible, hidden(like.dtype))
    return F.pad(shades, (start, 0))


def hidden(dtype: torch.dtype) -> float:
    """The number that hides a column when it is added to the column's attention score.

    It is finite, so that a row that sees nothing does not become NaN, and half the minimum, so that
    its sum with a score does not overflow.
    """
    return torch.finfo(dtype).min / 2


class Attention:
    """Self-attention; q_proj, k_proj and v_proj are one product."""

    def __init__(
        self, qkv_proj: Product, o_proj: Product, config: TextConfig, qk_norm: Norm | None = None
    ) -> None:
        """qk_norm: normalises the heads [..., heads + KV heads, D] of queries and keys; or None."""
        self.qkv_proj, self.o_proj, self._qk_norm = qkv_proj, o_proj, qk_norm
        self._gated = config.gated
        self._heads, self._kv_heads = config.num_attention_heads, config.num_key_value_heads
        self._head_dim = config.head_dim

    def __call__(self, x: Tensor, residual: Tensor, memory: cache.LayerCache, step: Step) -> Tensor:
        """Return `residual` plus attention's output for x [R * n, H]; may overwrite `residual`."""
        seen = x if step.context is None else torch.cat((step.context, x))
        queries, gates = self.remember(seen, memory, step.angles)
        if step.context is not None:
            queries = queries.narrow(2, len(step.context), len(x))
        attended = _attended(queries, memory.keys, memory.values, step)
        attended = attended.transpose(1, 2).reshape(len(x), -1)
        if gates is not None:
            attended = attended * gates.reshape(len(x), -1).sigmoid()
        return self.o_proj.added(attended, residual)

    def remember(
        self, x: Tensor, memory: cache.LayerCache, angles: Angles
    ) -> tuple[Tensor, Tensor | None]:
        """Write the keys and values of x [R * n, H].

        Returns its queries [R, heads, n, D] and their gates, if it has any.
        """
        heads, kv_heads = self._heads, self._kv_heads
        qkv = self.qkv_proj(x).view(memory.rows, len(x) // memory.rows, -1, self._head_dim)
        qkv, gates = self._parted(qkv)
        if self._qk_norm:
            turned = qkv.narrow(2, 0, heads + kv_heads)
            turned.copy_(self._qk_norm(turned))
        qkv = qkv.transpose(1, 2)
        rotate(qkv.narrow(1, 0, heads + kv_heads), angles)
        memory.write(qkv.narrow(1, heads, 2 * kv_heads))
        return qkv.narrow(1, 0, heads), gates

    def _parted(self, qkv: Tensor) -> tuple[Tensor, Tensor | None]:
        """Queries, keys and values [R, n, heads + 2 KV heads, D], and gates [R, n, heads, D]."""
        if not self._gated:
            return qkv, None
        count = 2 * self._heads  # a query, then its gate
        queries, gates = qkv[:, :, :count:2], qkv[:, :, 1:count:2]
        return torch.cat((queries, qkv[:, :, count:]), dim=2), gates


def _attended(queries: Tensor, keys: Tensor, values: Tensor, step: Step) -> Tensor:
    """Return attention [R, heads, n, D] of queries to keys and values [R, KV heads, C, D]."""
    if step.places:
        _, heads, rows, size = queries.shape
        grouped = queries.reshape(keys.shape[1], -1, rows, size)
        attended: Tensor = attend(xp, grouped, keys[0], values[0], step.places)
        return attended.reshape(1, heads, rows, size)
    return F.scaled_dot_product_attention(
        queries,
        keys,
        values,
        attn_mask=step.mask,
        is_causal=step.causal,
        enable_gqa=queries.shape[1] != keys.shape[1],
    )


class MLP:
    """SwiGLU; gate_proj and up_proj are one product."""

    def __init__(self, gate_up_proj: Product, down_proj: Product) -> None:
        self.gate_up_proj, self.down_proj = gate_up_proj, down_proj

    def __call__(self, x: Tensor, residual: Tensor) -> Tensor:
        """Return `residual` plus the MLP's output for x, both [n, H]; may overwrite `residual`."""
        gate, up = self.gate_up_proj(x).chunk(2, dim=-1)
        return self.down_proj.added(F.silu(gate).mul_(up), residual)


@dataclass(frozen=True, slots=True)
class DecoderLayer:
    """Attention and MLP, each behind its norm."""

    enter: Enter[Tensor]
    self_attn: Any
    """`Attention` or `DeltaLayer`."""
    post_attention_layernorm: Norm
    mlp: MLP

    @classmethod
    def take(
        cls,
        weights: Weights,
        path: str,
        config: TextConfig,
        *,
        enter: Enter[Tensor] | None = None,
        is_recurrent: bool = False,
    ) -> "DecoderLayer":
        """Take the tensors of the layer at `path`.

        enter: what attention reads of the input and is added to; None takes the input's norm.
        """

        def norm(name: str) -> Norm:
            return rms_norm(weights.take(f"{path}.{name}.weight"), config.rms_norm_eps)

        def product(*names: str, bias: bool = False) -> Product:
            return weights.product(*(f"{path}.{name}" for name in names), bias=bias)

        mixer: Attention | DeltaLayer
        if is_recurrent:
            mixer = DeltaLayer.take(weights, f"{path}.linear_attn", config)
        else:
            qkv_proj = product(*(f"self_attn.{part}_proj" for part in "qkv"), bias=config.qkv_bias)
            qk_norm = _qk_norm(weights, f"{path}.self_attn", config) if config.qk_norm else None
            mixer = Attention(qkv_proj, product("self_attn.o_proj"), config, qk_norm)
        gate_up_proj = product("mlp.gate_proj", "mlp.up_proj")
        return cls(
            enter or behind_norm(norm("input_layernorm")),
            mixer,
            norm("post_attention_layernorm"),
            MLP(gate_up_proj, product("mlp.down_proj")),
        )

    def __call__(self, x: Tensor, memory: cache.LayerMemory, step: Step) -> Tensor:
        """Feed x [R * n, H], which may be overwritten; returns the layer's output."""
        x = self.self_attn(*self.enter(x), memory, step)
        return self.mlp(self.post_attention_layernorm(x), x)


def _qk_norm(weights: Weights, path: str, config: TextConfig) -> Norm:
    """Return the norm of the heads of queries and keys, which have a weight [D] each."""
    counts = config.num_attention_heads, config.num_key_value_heads
    parts = (weights.take(f"{path}.{part}_norm.weight") for part in "qk")
    weight = [part.expand(count, -1) for part, count in zip(parts, counts, strict=True)]
    return rms_norm(torch.cat(weight), config.rms_norm_eps)


class Decoder:
    """The decoder layers with their rotary positions, without embedding, last norm and head."""

    def __init__(
        self,
        layers: Sequence[DecoderLayer],
        config: TextConfig,
        device: torch.device,
        dtype: torch.dtype,
    ) -> None:
        self.config, self.device, self.dtype = config, device, dtype
        width = config.rotary_dim or config.head_dim
        self.rotary = Rotary(
            width, config.rope_theta, device, dtype, config.rotary_axes, config.rotary_scaling
        )
        self.layers = layers

    def new_cache(self, rows: int) -> cache.Cache:
        """Return an empty cache for `rows` rows."""
        text, states = self.config, None
        if text.delta_net:
            if rows > 1:
                raise ValueError(f"a recurrent model has one row, not {rows}")
            states = new_states(framework(self.device), text.delta_net, self.dtype)
        attention = sum(isinstance(layer.self_attn, Attention) for layer in self.layers)
        sizes = attention, rows, text.num_key_value_heads, text.head_dim
        return cache.Cache(*sizes, self.device, self.dtype, states)

    def forward(self, x: Tensor, step: Step) -> Tensor:
        """Feed embeddings [R * n, H], which may be overwritten; returns the last layer's output.

        The outputs of the step's captured layers are put beside it, [R * n, (1 + c) H].
        """
        added, captured = chain(step.deepstack, repeat(None)), []
        layers = zip(self.layers, step.layers, added, strict=False)
        for before, (layer, memory, extra) in enumerate(layers):
            if before in step.captured:
                captured.append(x.clone())
            x = layer(x, memory, step)
            if extra is not None:
                x += extra
        if len(self.layers) in step.captured:
            captured.append(x)
        return torch.cat((x, *captured), dim=-1) if captured else x

    def append(
        self, x: Tensor, memory: cache.Cache, start: int, positions: Positions | None = None
    ) -> Tensor:
        """Feed one row's embeddings [n, H] to columns `start` onwards.

        x may be overwritten.  positions: rotary positions [3, n]; None if they are the columns.
        Returns the last layer's output [n, H].
        """
        end = start + len(x)
        if positions is None:
            angles = self.rotary.run(start, end)
        else:
            cos, sin = self.rotary.planes(positions[None])
            angles = cos[0], sin[0]
        return self.follow(x, memory, start, angles)

    def follow(
        self,
        x: Tensor,
        memory: cache.Cache,
        start: int,
        angles: Angles,
        padding: Tensor | None = None,
        deepstack: Sequence[Tensor] = (),
        captured: Sequence[int] = (),
    ) -> Tensor:
        """Feed embeddings [R * n, H] to columns `start` onwards, with a causal mask.

        x may be overwritten.  padding: mask [R, 1, 1, C or more] that hides it; None if none.
        deepstack, captured: see `Step`.  Returns what `forward` does.
        """
        count = len(x) // memory.rows
        end = start + count
        mask = None if padding is None else padding[..., :end]
        if count > 1 and (start or mask is not None):
            order = causal_mask(start, end, x)
            mask = order if mask is None else mask + order
        causal, layers = count > 1 and mask is None, memory.layers(start, end)
        step = Step(angles, layers, mask, causal, deepstack=deepstack, captured=captured)
        return self.forward(x, step)


class LanguageModel(Decoder):
    """A decoder with its embedding, last norm and output head."""

    def __init__(
        self, weights: Weights, config: TextConfig, device: torch.device, dtype: torch.dtype
    ) -> None:
        self.embedding = weights.take(EMBEDDING)
        paths = (f"language_model.layers.{index}" for index in range(config.num_hidden_layers))
        recurrent = config.delta_net.layers if config.delta_net else ()
        layers = [
            DecoderLayer.take(weights, path, config, is_recurrent=layer in recurrent)
            for layer, path in enumerate(paths)
        ]
        super().__init__(layers, config, device, dtype)
        self._norm = rms_norm(weights.take("language_model.norm.weight"), config.rms_norm_eps)
        # Never quantized: it is read once per token, and rounding would change close decisions.
        tied = config.tie_word_embeddings
        self._head = product(self.embedding if tied else weights.take(LM_HEAD))

    def embed(self, ids: Tensor) -> Tensor:
        """Return the embeddings [n, H] of ids [n]."""
        return F.embedding(ids, self.embedding)

    def states(self, x: Tensor) -> Tensor:
        """Return the last norm's output for x [n, H], which the output head reads."""
        return self._norm(x)

    def project(self, states: Tensor) -> Tensor:
        """Return the logits [n, V] of hidden states [n, H]."""
        return self._head(states)

    def logits(self, x: Tensor) -> Tensor:
        """Return the logits [n, V] of outputs [n, H]."""
        return self._head(self._norm(x))
