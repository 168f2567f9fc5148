"""EAGLE, EAGLE-3, MSD and FLASH to train: each fuses token and state, and has one decoder layer.

Shape letters: B sequences, L columns, R rows, A starts, D depths, H width, C queries, K slots.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

from mmspec.checkpoints.head_config import HeadConfig
from mmspec.drafters.heads.packing import Outline, Span
from mmspec.families.decoder import TextConfig
from mmspec_train.data.batch import Batch, gather_columns
from mmspec_train.distillation.acceptance import DraftStarts
from mmspec_train.distillation.losses import log_probabilities
from mmspec_train.heads.layers import DecoderLayer, KeysValues


@dataclass(frozen=True, slots=True)
class Layout:
    """The rows that a batch feeds to a head, as indices.

    A slot is what the head reads for one column; it has the number sequence · L + column.
    """

    pairs: Tensor
    """[P] slots that pair a hidden state with the next embedding."""
    others: Tensor
    """[Q] columns (sequence · L + column) of images that are fed unpaired and unpacked."""
    images: list[tuple[int, Span]]
    """Index of the sequence, and the columns, of each packed image."""
    rows: Tensor
    """[B, R] each row's index in the pairs followed by the others, or by the packed latents."""
    row: Tensor
    """[B, L] the row of each slot that is a pair."""


def lay_out_slots(batch: Batch, *, apart: bool, packed: int) -> Layout:
    """The rows for a head; see `mmspec.drafters.heads.packing`.

    apart: images are fed unpaired. packed: number of latents of an image; 0 does not pack.
    """
    width = batch.ids.shape[1]
    pairs: list[int] = []
    others: list[int] = []
    images: list[tuple[int, Span]] = []
    rows: list[list[int]] = []  # negative for rows that are no pairs: -1, -2, ...
    row = torch.zeros(len(batch.lengths), width, dtype=torch.long)
    for number, (columns, spans) in enumerate(zip(batch.lengths, batch.images, strict=True)):
        outline = Outline(apart, packed, columns, spans)
        own: list[int] = []
        for run in outline.runs(0, outline.slots):
            first, stop = number * width + run.start, number * width + run.stop
            count = run.stop - run.start
            if run.image is None:
                row[number, run.start : run.stop] = torch.arange(len(own), len(own) + count)
                own += range(len(pairs), len(pairs) + count)
                pairs += range(first, stop)
            elif packed:
                own += (-1 - n for n in range(len(images) * packed, (len(images) + 1) * packed))
                images.append((number, run.image))
            else:
                own += (-1 - n for n in range(len(others), len(others) + count))
                others += range(first + 1, stop + 1)
        rows.append(own)
    padded, device = pad_sequence(list(map(torch.tensor, rows)), batch_first=True), batch.ids.device
    return Layout(
        torch.tensor(pairs, dtype=torch.long, device=device),
        torch.tensor(others, dtype=torch.long, device=device),
        images,
        # Others are numbered after all pairs.
        torch.where(padded < 0, len(pairs) - 1 - padded, padded).to(device),
        row.to(device),
    )


class Compressor(nn.Module):
    """Learned queries that attend to an image's hidden states (FLASH, section 3.2)."""

    def __init__(self, queries: int, width: int, eps: float) -> None:
        super().__init__()
        self.queries = nn.Parameter(0.02 * torch.randn(queries, width))
        self.norm = nn.RMSNorm(width, eps)

    def forward(self, states: Tensor) -> Tensor:
        """Compress states [N, H] of an image to latents [C, H]."""
        scores = self.queries @ self.norm(states).transpose(-1, -2) / states.shape[-1] ** 0.5
        return torch.matmul(scores.softmax(dim=-1).to(states.dtype), states)


def before(starts: DraftStarts) -> Tensor:
    """Return the columns [B, A] before those of the starts."""
    return (starts.columns - 1).clamp(min=0)


def _in_planes(rows: Tensor) -> Tensor:
    """Return rows [B, A] as the same index [B, 3, A] into time, row and column."""
    return rows.unsqueeze(1).expand(-1, 3, -1)


class CachedHead(nn.Module, ABC):
    """A head with a decoder layer, which reads rows of the context and then its own features."""

    config: HeadConfig
    layers: nn.ModuleList
    """The one decoder layer."""

    def chains(
        self,
        x: Tensor,
        at: Tensor,
        positions: Tensor,
        batch: Batch,
        starts: DraftStarts,
    ) -> Iterator[Tensor]:
        """Yield the features [B, A, H] of each drafted token from every start.

        x: [B, R, ...] what the layer reads of the context. at: [B, A] the row before each start.
        positions: [B, 3, R + 1] rotary positions of the rows and of one more.
        From the second token on the head is fed its own features: training-time test (EAGLE-3;
        HASS, section 3.2).
        """
        layer = self._layer
        rows: KeysValues = layer.keys_values(x, positions[..., :-1])
        visible = torch.arange(x.shape[1], device=x.device) <= at.unsqueeze(-1)
        here, after = (positions.gather(2, _in_planes(row)) for row in (at, at + 1))
        feature = layer(gather_columns(x, at), here, rows, visible, [])
        chain: list[KeysValues] = []
        for depth in range(1, starts.depth):
            yield feature
            token = gather_columns(batch.embeddings, starts.after(depth))
            x = self._fused(token, feature)
            place = after + (depth - 1)
            chain.append(layer.keys_values(x, place))
            feature = layer(x, place, rows, visible, chain)
        yield feature

    @abstractmethod
    def _fused(self, token: Tensor, feature: Tensor) -> Tensor:
        """Return what the layer reads of drafted tokens: embeddings and features [B, A, H]."""

    @property
    def _layer(self) -> DecoderLayer:
        layer = self.layers[0]
        assert isinstance(layer, DecoderLayer)
        return layer


class Layered(CachedHead):
    """An EAGLE, MSD or FLASH head."""

    def __init__(self, config: HeadConfig, text: TextConfig) -> None:
        """Build random weights."""
        super().__init__()
        self.config = config
        width = config.hidden_size
        self.fc = nn.Linear(2 * width, width, bias=config.bias)
        self.layers = nn.ModuleList([DecoderLayer(text, input_norm=config.input_norm)])
        if config.queries:
            self.compressor = Compressor(config.queries, width, text.rms_norm_eps)
        self.slots = nn.ModuleList(nn.Linear(width, width) for _ in range(config.slots))
        for slot in self.slots.parameters():
            nn.init.zeros_(slot)

    def forward(self, batch: Batch, starts: DraftStarts) -> Tensor:
        """Return features [D, B, A, H] of the guesses from every start.

        The head reads the answer's own tokens, which right guesses equal.
        """
        layout = lay_out_slots(batch, apart=self.config.apart, packed=self.config.queries)
        x, at = self._rows(batch, layout), layout.row.gather(1, before(starts))
        # A head counts its own rows, as in decoding: a packed image has few of them.
        positions = torch.arange(x.shape[1] + 1, device=x.device).expand(len(x), 3, -1)
        features = self.chains(x, at, positions, batch, starts)
        if self.slots:
            feature, slots = next(features), list(self.slots)[: starts.depth]
            return torch.stack([feature + F.silu(slot(feature)) for slot in slots])
        return torch.stack(list(features))

    def log_probabilities(self, features: Tensor, output_matrix: Tensor) -> Tensor:
        """Return the log-probabilities [n, V] of features [n, H], by the target's output matrix."""
        return log_probabilities(features, output_matrix)

    def _fused(self, token: Tensor, feature: Tensor) -> Tensor:
        fused: Tensor = self.fc(torch.cat((token, feature), dim=-1)).float()
        return fused

    def _rows(self, batch: Batch, layout: Layout) -> Tensor:
        states, embeddings = batch.states.flatten(0, 1), batch.embeddings.flatten(0, 1)
        pairs = torch.cat((embeddings[layout.pairs + 1], states[layout.pairs]), dim=-1)
        fused = self.fc(pairs).float()
        return torch.cat((fused, self._others(batch, layout).float()))[layout.rows]

    def _others(self, batch: Batch, layout: Layout) -> Tensor:
        """Return the images' rows [Q, H] that do not pair a state with an embedding."""
        if layout.images:
            spans = [batch.states[row, first:end] for row, (first, end) in layout.images]
            return torch.cat([self.compressor(states) for states in spans])
        rows = batch.states if self.config.kind == "flash" else batch.embeddings
        return rows.flatten(0, 1)[layout.others]
