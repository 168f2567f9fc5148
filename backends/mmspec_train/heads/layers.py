"""A decoder layer over the rows of a conversation and the chains of guesses after them.

Shape letters: B sequences, R rows, A starts, H width, h heads, D head size.
"""

import torch
from torch import Tensor, nn
from transformers.models.llama.modeling_llama import LlamaAttention, LlamaMLP

from mmspec.families.decoder import TextConfig
from mmspec_train.llama import llama_config

KeysValues = tuple[Tensor, Tensor]
"""Keys and values: [B, h, R, D] of rows, or [B, h, A, D] of one guess of every chain."""


class Rotary(nn.Module):
    """Llama's rotary position embedding, or Qwen's in time, row and column (M-RoPE)."""

    def __init__(self, text: TextConfig) -> None:
        super().__init__()
        steps = torch.arange(0, text.head_dim, 2, dtype=torch.int64).float()
        frequencies = text.rope_theta ** (-steps / text.head_dim)
        axes = torch.tensor(text.rotary_axes or [0] * len(steps))
        self.frequencies: Tensor
        self.axes: Tensor
        self.register_buffer("frequencies", frequencies, persistent=False)
        self.register_buffer("axes", axes, persistent=False)

    def forward(self, heads: Tensor, positions: Tensor) -> Tensor:
        """Rotate heads [B, h, A, D] to positions [B, 3, A]."""
        with torch.autocast(heads.device.type, enabled=False):
            half = positions[:, self.axes].transpose(1, 2).float() * self.frequencies
            angles = torch.cat((half, half), dim=-1).unsqueeze(1)
            first, second = heads.float().chunk(2, dim=-1)
            rotated = torch.cat((-second, first), dim=-1)
            return (heads * angles.cos() + rotated * angles.sin()).to(heads.dtype)


class DecoderLayer(nn.Module):
    """A Llama layer that computes its output only at chosen rows."""

    def __init__(self, text: TextConfig, *, input_norm: bool) -> None:
        """Build random weights; without `input_norm` the input is not normalised.

        What is added to the residual starts at zero.
        """
        super().__init__()
        width, eps, config = text.hidden_size, text.rms_norm_eps, llama_config(text)
        self.input_layernorm = nn.RMSNorm(width, eps) if input_norm else nn.Identity()
        self.self_attn = LlamaAttention(config, 0)
        self.post_attention_layernorm = nn.RMSNorm(width, eps)
        self.mlp = LlamaMLP(config)  # type: ignore[no-untyped-call]
        self.rotary = Rotary(text)
        nn.init.zeros_(self.self_attn.o_proj.weight)
        nn.init.zeros_(self.mlp.down_proj.weight)

    def enter(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return what attention reads of x [..., H], and what its output is added to."""
        return self.input_layernorm(x), x

    def keys_values(self, x: Tensor, positions: Tensor) -> KeysValues:
        """Return the keys and values of x [B, R, H] at positions [B, 3, R]."""
        attention, (normed, _) = self.self_attn, self.enter(x)
        keys = self.rotary(self._split(attention.k_proj(normed)), positions)
        values = self._split(attention.v_proj(normed))
        repeats = attention.num_key_value_groups
        return keys.repeat_interleave(repeats, 1), values.repeat_interleave(repeats, 1)

    def _split(self, x: Tensor) -> Tensor:
        """Split [B, A, h * D] into [B, h, A, D]."""
        return x.view(*x.shape[:2], -1, self.self_attn.head_dim).transpose(1, 2)

    def forward(
        self,
        x: Tensor,
        positions: Tensor,
        rows: KeysValues,
        visible: Tensor,
        chain: list[KeysValues],
    ) -> Tensor:
        """Return the layer's output [B, A, H] for x [B, A, H] at positions [B, 3, A].

        x is the context itself, or the latest token of each of A drafted chains. rows: keys and
        values of the R entries of the context. visible: [B, A, R], True where x may attend to an
        entry. chain: an item per token drafted so far, with its keys and values in all A chains;
        the last item is that of x. Empty if x is the context.
        """
        attention = self.self_attn
        normed, x = self.enter(x)
        queries = self._split(attention.q_proj(normed))
        queries = self.rotary(queries, positions) * attention.scaling
        attended = attend_with_chains(queries, rows, visible, chain)
        x = x + attention.o_proj(attended.transpose(1, 2).flatten(-2))
        output: Tensor = x + self.mlp(self.post_attention_layernorm(x))
        return output


def attend_with_chains(
    queries: Tensor, rows: KeysValues, visible: Tensor, chain: list[KeysValues]
) -> Tensor:
    """Attend with scaled queries [B, h, A, D] to rows [B, h, R, D] and to each chain's own tokens.

    A chain does not see the drafted tokens of another chain.
    """
    keys, values = rows
    scores = torch.matmul(queries, keys.transpose(-1, -2)).float()
    scores = scores.masked_fill(~visible.unsqueeze(1), float("-inf"))
    own = [(queries * key).sum(dim=-1, keepdim=True).float() for key, _ in chain]
    shares = torch.cat((scores, *own), dim=-1).softmax(dim=-1).to(values.dtype)
    count = keys.shape[2]
    attended = torch.matmul(shares[..., :count], values)
    for number, (_, value) in enumerate(chain, start=count):
        attended = attended + shares[..., number : number + 1] * value
    return attended
