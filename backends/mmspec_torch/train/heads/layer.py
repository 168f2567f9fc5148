"""One decoder layer over known rows and over chains of guesses that branch off from them.

Shape letters: B sequences, R rows, A starts, H width, h heads, D head size.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mmspec.config import TextConfig

Memory = tuple[Tensor, Tensor]
"""Keys and values, [B, h, R, D] of rows or [B, h, A, D] of one guess of every chain."""


class Norm(nn.Module):
    """A root-mean-square norm that computes in float32 whatever it is given."""

    def __init__(self, width: int, eps: float) -> None:
        """Start with a weight of ones."""
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        """Normalise x [..., H]."""
        return F.rms_norm(x.float(), self.weight.shape, self.weight, self.eps)


class Rotary(nn.Module):
    """Rotary positions as Llama has them: halves of a head turned against each other."""

    def __init__(self, head_dim: int, theta: float) -> None:
        """Keep the frequencies in float32."""
        super().__init__()
        steps = torch.arange(0, head_dim, 2, dtype=torch.int64).float()
        self.frequencies: Tensor
        self.register_buffer("frequencies", theta ** (-steps / head_dim), persistent=False)

    def forward(self, heads: Tensor, positions: Tensor) -> Tensor:
        """Turn heads [B, h, A, D] to positions [B, A]."""
        with torch.autocast(heads.device.type, enabled=False):
            half = positions.float().unsqueeze(-1) * self.frequencies
            angles = torch.cat((half, half), dim=-1).unsqueeze(1)
            first, second = heads.float().chunk(2, dim=-1)
            swapped = torch.cat((-second, first), dim=-1)
            return (heads * angles.cos() + swapped * angles.sin()).to(heads.dtype)


class Attention(nn.Module):
    """Projections of one layer."""

    def __init__(self, text: TextConfig, *, bias: bool) -> None:
        """Build what `text` describes."""
        super().__init__()
        width, size = text.hidden_size, text.head_dim
        self.size = size
        self.shared = text.num_attention_heads // text.num_key_value_heads
        self.q_proj = nn.Linear(width, text.num_attention_heads * size, bias=bias)
        self.k_proj = nn.Linear(width, text.num_key_value_heads * size, bias=bias)
        self.v_proj = nn.Linear(width, text.num_key_value_heads * size, bias=bias)
        self.o_proj = nn.Linear(text.num_attention_heads * size, width, bias=False)

    def split(self, x: Tensor) -> Tensor:
        """[B, A, h * D] as [B, h, A, D]."""
        return x.view(*x.shape[:2], -1, self.size).transpose(1, 2)


class Gated(nn.Module):
    """Llama's MLP."""

    def __init__(self, width: int, inner: int) -> None:
        """Three matrices without biases."""
        super().__init__()
        self.gate_proj = nn.Linear(width, inner, bias=False)
        self.up_proj = nn.Linear(width, inner, bias=False)
        self.down_proj = nn.Linear(inner, width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """Map [..., H]."""
        mapped: Tensor = self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))
        return mapped


class DecoderLayer(nn.Module):
    """A Llama layer of which only the rows that are asked for are computed to the end."""

    def __init__(self, text: TextConfig, *, input_norm: bool, qkv_bias: bool) -> None:
        """Build it; without `input_norm` the layer reads its input as it is."""
        super().__init__()
        width, eps = text.hidden_size, text.rms_norm_eps
        if input_norm:
            self.input_layernorm: nn.Module = Norm(width, eps)
        else:
            self.input_layernorm = nn.Identity()
        self.self_attn = Attention(text, bias=qkv_bias)
        self.post_attention_layernorm = Norm(width, eps)
        self.mlp = Gated(width, text.intermediate_size)
        self.rotary = Rotary(text.head_dim, text.rope_theta)

    def memory(self, x: Tensor, positions: Tensor) -> Memory:
        """Keys and values of x [B, R, H] at positions [B, R]."""
        attention, read = self.self_attn, self.input_layernorm(x)
        keys = self.rotary(attention.split(attention.k_proj(read)), positions)
        values = attention.split(attention.v_proj(read))
        shared = attention.shared
        return keys.repeat_interleave(shared, 1), values.repeat_interleave(shared, 1)

    def forward(
        self, x: Tensor, positions: Tensor, known: Memory, seen: Tensor, chain: list[Memory]
    ) -> Tensor:
        """The layer's output [B, A, H] for x [B, A, H] at positions [B, A].

        seen: [B, A, R] the rows that each start sees.  chain: the guesses since, x last; empty
        where x is a row itself.
        """
        attention = self.self_attn
        queries = attention.split(attention.q_proj(self.input_layernorm(x)))
        queries = self.rotary(queries, positions) * attention.size**-0.5
        attended = attend(queries, known, seen, chain)
        x = x + attention.o_proj(attended.transpose(1, 2).flatten(-2))
        fed: Tensor = x + self.mlp(self.post_attention_layernorm(x))
        return fed


def attend(queries: Tensor, known: Memory, seen: Tensor, chain: list[Memory]) -> Tensor:
    """Attend with scaled queries [B, h, A, D] to rows [B, h, R, D] and to a chain's own guesses.

    A guess of one start is seen by that start alone.
    """
    keys, values = known
    scores = torch.matmul(queries, keys.transpose(-1, -2)).float()
    scores = scores.masked_fill(~seen.unsqueeze(1), float("-inf"))
    own = [(queries * key).sum(dim=-1, keepdim=True).float() for key, _ in chain]
    shares = torch.cat((scores, *own), dim=-1).softmax(dim=-1).to(values.dtype)
    rows = keys.shape[2]
    attended = torch.matmul(shares[..., :rows], values)
    for number, (_, value) in enumerate(chain, start=rows):
        attended = attended + shares[..., number : number + 1] * value
    return attended
