"""Attention over the columns of a cache, and what one forward says of its rows.

Shape letters: R rows, n columns fed, C visible columns, H width, D head size.
Activations are [R * n, H].
"""

from collections.abc import Sequence
from typing import NamedTuple

import array_api_compat.torch as xp
import torch
import torch.nn.functional as F
from torch import Tensor

from mmspec.decoding.block_attention import Places, attend
from mmspec.families.decoder import TextConfig
from mmspec_torch.device.norms import Norm, rms_norm
from mmspec_torch.device.products import Product
from mmspec_torch.device.weights import Weights
from mmspec_torch.network import cache
from mmspec_torch.network.rotary import Angles, rotate


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

    @classmethod
    def take(cls, weights: Weights, path: str, config: TextConfig) -> "Attention":
        """Take the tensors at `path`."""
        parts = (f"{path}.{part}_proj" for part in "qkv")
        qkv_proj = weights.product(*parts, bias=config.qkv_bias)
        qk_norm = _qk_norm(weights, path, config) if config.qk_norm else None
        return cls(qkv_proj, weights.product(f"{path}.o_proj"), config, qk_norm)

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


def _qk_norm(weights: Weights, path: str, config: TextConfig) -> Norm:
    """Return the norm of the heads of queries and keys, which have a weight [D] each."""
    counts = config.num_attention_heads, config.num_key_value_heads
    parts = (weights.take(f"{path}.{part}_norm.weight") for part in "qk")
    weight = [part.expand(count, -1) for part, count in zip(parts, counts, strict=True)]
    return rms_norm(torch.cat(weight), config.rms_norm_eps)


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
