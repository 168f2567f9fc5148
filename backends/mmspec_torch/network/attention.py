"""Attention over the columns of a cache, its masks, and what one forward says of its rows.

Shape letters: R rows, n columns fed, C visible columns, H width, D head size.
Activations are [R * n, H].
"""

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import NamedTuple

import array_api_compat.torch as xp
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from mmspec.decoding.block_attention import Places, attend
from mmspec.decoding.layers import AttentionParts
from mmspec.decoding.stored_states import STEP
from mmspec_torch.device.device_io import upload
from mmspec_torch.network import cache
from mmspec_torch.network.rotary import Angles, rotate

KERNELS = [SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]


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
    captured_layers: Sequence[int] = ()
    """Layers whose outputs are returned too, ascending; 0 is the embedding."""
    recurs: bool = False
    """True if forwards of its shape recur, so that a kernel may take time to plan for it."""
    context: Tensor | None = None
    """Rows [n, H] before those fed, which attention sees as they are and which see nothing."""


def causal_mask(start: int, end: int, like: Tensor) -> Tensor:
    """Return the causal mask [n, C] of columns `start` to `end`."""
    return like.new_full((end - start, end), hiding_number(like.dtype)).triu_(start + 1)


def hiding(columns: Tensor, dtype: torch.dtype) -> Tensor:
    """Return the mask to add to scores: `hiding_number` where `columns` is true, 0 elsewhere."""
    zeros = torch.zeros(columns.shape, dtype=dtype, device=columns.device)
    return zeros.masked_fill_(columns, hiding_number(dtype))


def hiding_number(dtype: torch.dtype) -> float:
    """Return the number that hides a column when it is added to the column's attention score.

    It is finite, so that a row that sees nothing does not become NaN, and half the minimum, so that
    its sum with a score does not overflow.
    """
    return torch.finfo(dtype).min / 2


class Padding:
    """Hides padding; all later columns have tokens."""

    def __init__(
        self, is_padding: Sequence[Sequence[bool]], dtype: torch.dtype, device: torch.device
    ) -> None:
        """is_padding: [R, n]."""
        shades = [[hiding_number(dtype) * padding for padding in row] for row in is_padding]
        self._mask = F.pad(upload(shades, dtype, device)[:, None, None], (0, STEP))

    def mask(self, columns: int) -> Tensor:
        """Return a mask [R, 1, 1, columns or more]; the same one as long as it is wide enough."""
        missing = columns - self._mask.shape[-1]
        if missing > 0:
            self._mask = F.pad(self._mask, (0, missing + STEP))
        return self._mask


class Attention(AttentionParts[Tensor]):
    """Self-attention over the columns of a cache."""

    def __call__(self, x: Tensor, residual: Tensor, memory: cache.LayerCache, step: Step) -> Tensor:
        """Return `residual` plus attention's output for x [R * n, H]; may overwrite `residual`."""
        inputs = x if step.context is None else torch.cat((step.context, x))
        queries, gates = self.remember(inputs, memory, step.angles)
        if step.context is not None:
            queries = queries.narrow(2, len(step.context), len(x))
        attention = _attention(queries, memory.keys, memory.values, step)
        attention = attention.transpose(1, 2).reshape(len(x), -1)
        if gates is not None:
            attention = attention * gates.reshape(len(x), -1).sigmoid()
        output: Tensor = self.o_proj.add(attention, residual)
        return output

    def remember(
        self, x: Tensor, memory: cache.LayerCache, angles: Angles
    ) -> tuple[Tensor, Tensor | None]:
        """Write the keys and values of x [R * n, H].

        Returns its queries [R, heads, n, D] and their gates, if it has any.
        """
        heads, kv_heads, rows = self._heads, self._kv_heads, len(memory.keys)
        qkv = self.qkv_proj(x).view(rows, len(x) // rows, -1, self._head_dim)
        qkv, gates = self._split_gates(qkv)
        if self._qk_norm:
            queries_keys = qkv.narrow(2, 0, heads + kv_heads)
            queries_keys.copy_(self._qk_norm(queries_keys))
        qkv = qkv.transpose(1, 2)
        rotate(qkv.narrow(1, 0, heads + kv_heads), angles)
        memory.write(qkv.narrow(1, heads, 2 * kv_heads))
        return qkv.narrow(1, 0, heads), gates


def kernels(x: Tensor, step: Step) -> AbstractContextManager[None]:
    """A context for attention without cuDNN's kernel if shapes are new, which it plans for 40 ms.

    It is the fastest where they recur.
    """
    return sdpa_kernel(KERNELS) if x.is_cuda and not step.recurs else nullcontext()


def _attention(queries: Tensor, keys: Tensor, values: Tensor, step: Step) -> Tensor:
    """Return attention [R, heads, n, D] of queries to keys and values [R, KV heads, C, D]."""
    shape, mask = queries.shape, step.mask
    if step.places:
        groups = queries.reshape(keys.shape[1], -1, *shape[2:])
        output: Tensor = attend(xp, groups, keys[0], values[0], step.places)
        return output.reshape(shape)
    if mask is not None and queries.is_cuda and not step.recurs:
        queries, mask = heads_as_rows(queries, keys.shape[1], mask)
    shares = queries.shape[1] != keys.shape[1]
    output = F.scaled_dot_product_attention(
        queries, keys, values, attn_mask=mask, is_causal=step.causal, enable_gqa=shares
    )
    return output.reshape(shape)


def heads_as_rows(queries: Tensor, heads: int, mask: Tensor) -> tuple[Tensor, Tensor]:
    """Queries [R, heads, g * n, D] whose g heads that share keys are rows, and their mask.

    CUDA's kernels but cuDNN's take a mask only where each head of queries has keys of its own.
    """
    group = queries.shape[1] // heads
    rows = mask if mask.shape[-2] == 1 else torch.cat([mask] * group, dim=-2)
    return queries.reshape(len(queries), heads, -1, queries.shape[-1]), rows
