"""EAGLE, MSD and FLASH to train: each fuses token and state, and has one decoder layer.

Shape letters: B sequences, L columns, R rows, C rows of the context, A starts, K rows of a start
before, D depths, H width, Q queries; in attention h heads of size d.
"""

from abc import abstractmethod
from collections.abc import Iterator
from functools import partial
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
"""Keys and values of rows [B, h, R, d], or of the rows of each start [B, h, A, R, d]."""


class DecoderLayerModule(nn.Module):
    """A Llama or Qwen3 layer, of which only rows after some starts in a context are computed."""

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

    def keys_values(self, rows: Tensor, positions: Tensor) -> KeysValues:
        """Return keys and values of rows that attention reads, [B, R, ...] at [B, 3, R]."""
        keys, values = self._rotate(self._heads("k", rows), positions), self._heads("v", rows)
        repeats = self.self_attn.num_key_value_groups
        return keys.repeat_interleave(repeats, 1), values.repeat_interleave(repeats, 1)

    def _rotate(self, heads: Tensor, positions: Tensor) -> Tensor:
        """Rotate heads [B, h, R, d] to positions [B, 3, R], as Llama or, with axes, as M-RoPE."""
        with torch.autocast(heads.device.type, enabled=False):
            half = positions[:, self.axes].transpose(1, 2).float() * self.frequencies
            angles = torch.cat((half, half), dim=-1).unsqueeze(1)
            first, second = heads.float().chunk(2, dim=-1)
            partners = torch.cat((-second, first), dim=-1)
            return (heads * angles.cos() + partners * angles.sin()).to(heads.dtype)

    def _heads(self, kind: str, rows: Tensor) -> Tensor:
        """Return queries, keys or values [B, h, R, d] before rotation; kind: "q", "k" or "v"."""
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
        before: KeysValues | None = None,
    ) -> tuple[Tensor, KeysValues]:
        """Return the layer's output [B, A, R, H] for R rows x [B, A, R, H] after each of A starts.

        positions: [B, 3, A R]. rows: keys and values of the context, of which a start's rows see
        those that are `visible` [B, A, C]. They also see each other and the rows of the same start
        `before`, [B, h, A, K, d]. Returns the keys and values of all these rows, too.
        """
        by_start = partial(torch.unflatten, dim=2, sizes=x.shape[1:3])
        inputs, x = self.enter(x)
        inputs, (keys, values) = inputs.flatten(1, 2), rows
        queries = self._rotate(self._heads("q", inputs), positions) * self.self_attn.scaling
        own_keys, own_values = map(by_start, self.keys_values(inputs, positions))
        if before:
            own_keys = torch.cat((before[0], own_keys), dim=3)
            own_values = torch.cat((before[1], own_values), dim=3)
        scores = by_start((queries @ keys.transpose(-1, -2)).float())
        scores = scores.masked_fill(~visible[:, None, :, None], float("-inf"))
        own_scores = (by_start(queries) @ own_keys.transpose(-1, -2)).float()
        shares = torch.cat((scores, own_scores), dim=-1).softmax(dim=-1).to(values.dtype)
        shares, own_shares = shares.tensor_split([keys.shape[2]], dim=-1)
        attention = by_start(shares.flatten(2, 3) @ values) + own_shares @ own_values
        x = x + self.self_attn.o_proj(attention.permute(0, 2, 3, 1, 4).flatten(-2))
        return x + self.mlp(self.post_attention_layernorm(x)), (own_keys, own_values)


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
        """Compress states [N, H] of an image to latents [Q, H]."""
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
        Memory grows with the square of the depths: each attends to the keys of all before it.
        From the second token on the head is fed its own features: training-time test (EAGLE-3;
        HASS, section 3.2).
        """
        layer = self.layers[0]
        assert isinstance(layer, DecoderLayerModule)
        rows = layer.keys_values(layer.enter(x)[0], positions[..., :-1])
        visible = torch.arange(x.shape[1], device=x.device) < at.unsqueeze(-1)
        place, next_place = (
            positions.gather(2, row.unsqueeze(1).expand(-1, 3, -1)) for row in (at, at + 1)
        )
        output, own = layer(gather_columns(x, at).unsqueeze(2), place, rows, visible)
        for distance, columns in enumerate(starts.after[1:]):
            feature = output.squeeze(2)
            yield feature
            x = self._fuse(gather_columns(batch.embeddings, columns), feature).unsqueeze(2)
            output, own = layer(x, next_place + distance, rows, visible, own)
        yield output.squeeze(2)

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
