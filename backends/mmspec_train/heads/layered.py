"""EAGLE, MSD and FLASH to train: each fuses token and state, and has one decoder layer.

Shape letters: B sequences, L columns, R rows, A starts, D depths, H width, C queries, K slots;
in attention h heads of size d.
"""

from abc import abstractmethod
from collections.abc import Iterator
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence
from transformers.models.llama.modeling_llama import LlamaAttention, LlamaMLP
from transformers.models.qwen3.modeling_qwen3 import Qwen3Attention

from mmspec.checkpoints.head_config import HeadConfig
from mmspec.drafters.heads.packing import Outline
from mmspec.families.decoder import TextConfig
from mmspec_train.data.batch import Batch, gather_columns
from mmspec_train.distillation.objective import DraftStarts
from mmspec_train.heads.head import Head, zero_linear
from mmspec_train.llama import llama_config

KeysValues = tuple[Tensor, Tensor]
"""Keys and values: [B, h, R, D] of rows, or [B, h, A, D] of one guess of every chain."""


class DecoderLayerModule(nn.Module):
    """A Llama layer that computes its output only at some rows."""

    def __init__(self, text: TextConfig, *, input_norm: bool) -> None:
        """Build random weights; what is added to the residual starts at zero."""
        super().__init__()
        width, eps = text.hidden_size, text.rms_norm_eps
        self.input_layernorm = nn.RMSNorm(width, eps) if input_norm else nn.Identity()
        attention: Any = Qwen3Attention if text.qk_norm else LlamaAttention
        self.self_attn = attention(llama_config(text), 0)
        self.post_attention_layernorm = nn.RMSNorm(width, eps)
        self.mlp = LlamaMLP(llama_config(text))  # type: ignore[no-untyped-call]
        steps = torch.arange(0, text.head_dim, 2, dtype=torch.int64).float()
        frequencies = text.rope_theta ** (-steps / text.head_dim)
        axes = torch.tensor(text.rotary_axes or [0] * len(steps))
        self.frequencies = nn.Buffer(frequencies, persistent=False)
        self.axes = nn.Buffer(axes, persistent=False)
        nn.init.zeros_(self.self_attn.o_proj.weight)
        nn.init.zeros_(self.mlp.down_proj.weight)

    def enter(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return what attention reads of x [..., H], and what its output is added to."""
        return self.input_layernorm(x), x

    def leave(self, x: Tensor, attention: Tensor) -> Tensor:
        """Return the layer's output: x [..., H] plus attention's [..., h * D] and the MLP's."""
        x = x + self.self_attn.o_proj(attention)
        output: Tensor = x + self.mlp(self.post_attention_layernorm(x))
        return output

    def keys_values(self, rows: Tensor, positions: Tensor) -> KeysValues:
        """Return keys and values of rows that attention reads, [B, R, ...] at [B, 3, R]."""
        keys, values = self._rotate(self._heads("k", rows), positions), self._heads("v", rows)
        repeats = self.self_attn.num_key_value_groups
        return keys.repeat_interleave(repeats, 1), values.repeat_interleave(repeats, 1)

    def queries(self, rows: Tensor, positions: Tensor) -> Tensor:
        """Return the scaled queries [B, h, R, D] of rows that attention reads."""
        scale: float = self.self_attn.scaling
        return self._rotate(self._heads("q", rows), positions) * scale

    def _rotate(self, heads: Tensor, positions: Tensor) -> Tensor:
        """Rotate heads [B, h, A, d] to positions [B, 3, A], as Llama or, with axes, as M-RoPE."""
        with torch.autocast(heads.device.type, enabled=False):
            half = positions[:, self.axes].transpose(1, 2).float() * self.frequencies
            angles = torch.cat((half, half), dim=-1).unsqueeze(1)
            first, second = heads.float().chunk(2, dim=-1)
            partners = torch.cat((-second, first), dim=-1)
            return (heads * angles.cos() + partners * angles.sin()).to(heads.dtype)

    def _heads(self, kind: str, rows: Tensor) -> Tensor:
        """Return queries, keys or values [B, h, R, D] before rotation; kind: "q", "k" or "v"."""
        heads: Tensor = self.self_attn.get_submodule(f"{kind}_proj")(rows)
        heads = heads.view(*heads.shape[:2], -1, self.self_attn.head_dim).transpose(1, 2)
        norm = getattr(self.self_attn, f"{kind}_norm", None)
        return norm(heads) if norm else heads

    def forward(
        self,
        x: Tensor,
        positions: Tensor,
        rows: KeysValues,
        visible: Tensor,
        chain: list[KeysValues],
    ) -> Tensor:
        """Return the layer's output [B, A, H] for x [B, A, H] at positions [B, 3, A].

        x: the context's row before each of A starts, or the latest token of each drafted chain.
        rows: keys and values of the context. visible: [B, A, R] True where x may attend to them.
        chain: keys and values of each token drafted so far, in all A chains, x's own last; empty
        for rows of the context.
        """
        inputs, x = self.enter(x)
        queries, (keys, values), count = self.queries(inputs, positions), rows, visible.shape[-1]
        scores = torch.matmul(queries, keys.transpose(-1, -2)).float()
        scores = scores.masked_fill(~visible.unsqueeze(1), float("-inf"))
        chain_scores = [(queries * key).sum(dim=-1, keepdim=True).float() for key, _ in chain]
        shares = torch.cat((scores, *chain_scores), dim=-1).softmax(dim=-1).to(values.dtype)
        attention = torch.matmul(shares[..., :count], values)
        for number, (_, value) in enumerate(chain, start=count):
            attention = attention + shares[..., number : number + 1] * value
        return self.leave(x, attention.transpose(1, 2).flatten(-2))


def slot_rows(batch: Batch, *, apart: bool, latents: int) -> tuple[Tensor, Tensor]:
    """Return the rows [B, R] of a head, and the row [B, L - 1] of each slot; -1 if it is no pair.

    Slot j pairs the state of column j with the next embedding; see
    `mmspec.drafters.heads.packing`. latents: the number of rows of an image, 0 if each of its slots
    has one. A row is the number of its slot or, for an image whose slots stand `apart`, L - 1 and
    its column, or L - 1 and the number of its latent.
    """
    slots, device = batch.ids.shape[1] - 1, batch.ids.device
    rows: list[Tensor] = []
    row_of_slot = torch.full((len(batch.lengths), slots), -1)
    for number, (columns, spans) in enumerate(zip(batch.lengths, batch.images, strict=True)):
        outline, row = Outline(apart, latents, columns, spans), list[int]()
        for start, stop, image in outline.runs(0, outline.slots):
            if image is None:
                row_of_slot[number, start:stop] = torch.arange(len(row), len(row) + stop - start)
                row += range(start, stop)
            elif latents:
                first = slots + latents * spans.index(image)
                row += range(first, first + latents)
            else:
                row += range(slots + start + 1, slots + stop + 1)
        rows.append(torch.tensor(row, dtype=torch.long))
    return pad_sequence(rows, batch_first=True).to(device), row_of_slot.to(device)


class CompressorModule(nn.Module):
    """Learned queries that attend to an image's hidden states (FLASH, section 3.2)."""

    def __init__(self, queries: int, width: int, eps: float) -> None:
        super().__init__()
        self.queries = nn.Parameter(0.02 * torch.randn(queries, width))
        self.norm = nn.RMSNorm(width, eps)

    def forward(self, states: Tensor) -> Tensor:
        """Compress states [N, H] of an image to latents [C, H]."""
        scores = self.queries @ self.norm(states).transpose(-1, -2) / states.shape[-1] ** 0.5
        return torch.matmul(scores.softmax(dim=-1).to(states.dtype), states)


class CachedHead(Head):
    """A head with a decoder layer, which reads rows of the context and then its own features."""

    layers: nn.ModuleList
    """The one decoder layer."""

    def chains(
        self, x: Tensor, at: Tensor, positions: Tensor, batch: Batch, starts: DraftStarts
    ) -> Iterator[Tensor]:
        """Yield the features [B, A, H] of each drafted token from every start.

        x: [B, R, ...] what the layer reads of the context. at: [B, A] the row before each start.
        positions: [B, 3, R + 1] rotary positions of the rows and of one more.
        From the second token on the head is fed its own features: training-time test (EAGLE-3;
        HASS, section 3.2).
        """
        layer = self.layers[0]
        assert isinstance(layer, DecoderLayerModule)
        rows = layer.keys_values(layer.enter(x)[0], positions[..., :-1])
        visible = torch.arange(x.shape[1], device=x.device) <= at.unsqueeze(-1)
        place, next_place = (
            positions.gather(2, row.unsqueeze(1).expand(-1, 3, -1)) for row in (at, at + 1)
        )
        feature = layer(gather_columns(x, at), place, rows, visible, [])
        chain: list[KeysValues] = []
        for distance, columns in enumerate(starts.after[1:]):
            yield feature
            x = self._fuse(gather_columns(batch.embeddings, columns), feature)
            place = next_place + distance
            chain.append(layer.keys_values(layer.enter(x)[0], place))
            feature = layer(x, place, rows, visible, chain)
        yield feature

    @abstractmethod
    def _fuse(self, token: Tensor, feature: Tensor) -> Tensor:
        """Return what the layer reads of drafted tokens: embeddings and features [B, A, H]."""


class LayeredModule(CachedHead):
    """An EAGLE, MSD or FLASH head."""

    def __init__(self, config: HeadConfig, text: TextConfig) -> None:
        """Build random weights."""
        super().__init__()
        self.config = config
        width = config.hidden_size
        self.fc = nn.Linear(2 * width, width, bias=config.bias)
        self.layers = nn.ModuleList([DecoderLayerModule(text, input_norm=config.input_norm)])
        if config.queries:
            self.compressor = CompressorModule(config.queries, width, text.rms_norm_eps)
        self.slots = nn.ModuleList(zero_linear(width) for _ in range(config.slots))

    def forward(self, batch: Batch, starts: DraftStarts) -> Tensor:
        """Return features [D, B, A, H]."""
        rows, row_of_slot = slot_rows(batch, apart=self.config.apart, latents=self.config.queries)
        is_pair = row_of_slot >= 0
        pairs = self._fuse(batch.embeddings[:, 1:][is_pair], batch.states[:, :-1][is_pair])
        slots = torch.zeros_like(batch.states[:, 1:]).masked_scatter(is_pair.unsqueeze(-1), pairs)
        x = gather_columns(torch.cat((slots, self._images(batch).float()), dim=1), rows)
        at = row_of_slot.gather(1, starts.before).clamp(min=0)
        # A head counts its own rows, as in decoding: an image of latents has few of them.
        positions = torch.arange(x.shape[1] + 1, device=x.device).expand(len(x), 3, -1)
        features = self.chains(x, at, positions, batch, starts)
        if self.slots:
            feature = next(features)
            layers = list(self.slots)[: starts.depth]
            return torch.stack([feature + F.silu(layer(feature)) for layer in layers])
        return torch.stack(list(features))

    def _fuse(self, token: Tensor, feature: Tensor) -> Tensor:
        pair: Tensor = self.fc(torch.cat((token, feature), dim=-1)).float()
        return pair

    def _images(self, batch: Batch) -> Tensor:
        """Return what is read of images, for each column [B, L, H] or as latents [B, ..., H]."""
        if not self.config.queries:
            return batch.states if self.config.kind == "flash" else batch.embeddings
        latents = [
            torch.cat([states[:0], *(self.compressor(states[a:b]) for a, b in spans)])
            for states, spans in zip(batch.states, batch.images, strict=True)
        ]
        return pad_sequence(latents, batch_first=True)
