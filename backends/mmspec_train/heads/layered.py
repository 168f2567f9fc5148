"""EAGLE, MSD and FLASH to train: each fuses token and state, and has one decoder layer.

Shape letters: B sequences, L columns, R rows, A starts, D depths, H width, C queries, K slots.
"""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mmspec.checkpoints.head_config import HeadConfig
from mmspec.families.decoder import TextConfig
from mmspec_train.distillation.draft_starts import DraftStarts
from mmspec_train.heads.decoder_layer import DecoderLayer, KeysValues
from mmspec_train.heads.layout import Layout, lay_out_slots
from mmspec_train.teacher.batch import TeacherBatch, gather_columns

NextEmbeddings = Callable[[Tensor], Tensor]
"""Function from features [B, A, H] to the embeddings [B, A, H] of their likeliest tokens."""


def embeddings_at(
    depth: int,
    feature: Tensor,
    batch: TeacherBatch,
    starts: DraftStarts,
    next_embeddings: NextEmbeddings | None,
) -> Tensor:
    """Return the embeddings [B, A, H] fed at a depth: of the guesses, or by default the answer."""
    if next_embeddings:
        return next_embeddings(feature)
    return gather_columns(batch.embeddings, starts.after(depth))


class Compressor(nn.Module):
    """Learned queries that attend to an image's hidden states (FLASH, section 3.2)."""

    def __init__(self, queries: int, width: int, eps: float) -> None:
        super().__init__()
        self.queries = nn.Parameter(0.02 * torch.randn(queries, width))
        self.norm = nn.RMSNorm(width, eps)

    def forward(self, states: Tensor) -> Tensor:
        """Compress states [M, N, H] of M images to latents [M, C, H]."""
        scores = self.queries @ self.norm(states).transpose(-1, -2) / states.shape[-1] ** 0.5
        return torch.matmul(scores.softmax(dim=-1).to(states.dtype), states)


class Layered(nn.Module):
    """An EAGLE, MSD or FLASH head, which has a decoder layer."""

    def __init__(self, config: HeadConfig, text: TextConfig) -> None:
        """Build random weights; the layer's output projections start at zero."""
        super().__init__()
        self.config = config
        width = config.hidden_size
        self.fc = nn.Linear(2 * width, width, bias=config.bias)
        layer = DecoderLayer(text, input_norm=config.input_norm)
        nn.init.zeros_(layer.self_attn.o_proj.weight)
        nn.init.zeros_(layer.mlp.down_proj.weight)
        self.layers = nn.ModuleList([layer])
        if config.queries:
            self.compressor = Compressor(config.queries, width, text.rms_norm_eps)
        self.slots = nn.ModuleList(nn.Linear(width, width) for _ in range(config.slots))
        for slot in self.slots.parameters():
            nn.init.zeros_(slot)

    def forward(
        self,
        batch: TeacherBatch,
        starts: DraftStarts,
        next_embeddings: NextEmbeddings | None = None,
    ) -> Tensor:
        """Return features [D, B, A, H] of the guesses from every start.

        next_embeddings: computes the embeddings that the head feeds itself; by default it reads
        the answer's own tokens, which right guesses equal.
        """
        layout = lay_out_slots(batch, apart=self.config.apart, packed=self.config.queries)
        x = self._rows(batch, layout)
        layer = self._layer
        count = torch.arange(x.shape[1], device=x.device)
        rows: KeysValues = layer.keys_values(x, count.expand(len(x), -1))
        at = layout.row.gather(1, (starts.columns - 1).clamp(min=0))
        visible = count <= at.unsqueeze(-1)
        feature = layer(gather_columns(x, at), at, rows, visible, [])
        if self.slots:
            slots = list(self.slots)[: starts.depth]
            return torch.stack([feature + F.silu(slot(feature)) for slot in slots])
        # The head is fed its own features: training-time test (EAGLE-3; HASS, section 3.2).
        features, chain = [feature], []
        for depth in range(1, starts.depth):
            token = embeddings_at(depth, features[-1], batch, starts, next_embeddings)
            x = self.fc(torch.cat((token, features[-1]), dim=-1)).float()
            chain.append(layer.keys_values(x, at + depth))
            features.append(layer(x, at + depth, rows, visible, chain))
        return torch.stack(features)

    @property
    def _layer(self) -> DecoderLayer:
        layer = self.layers[0]
        assert isinstance(layer, DecoderLayer)
        return layer

    def _rows(self, batch: TeacherBatch, layout: Layout) -> Tensor:
        states, embeddings = batch.states.flatten(0, 1), batch.embeddings.flatten(0, 1)
        pairs = torch.cat((embeddings[layout.pairs + 1], states[layout.pairs]), dim=-1)
        fused = self.fc(pairs).float()
        return torch.cat((fused, self._others(batch, layout).float()))[layout.rows]

    def _others(self, batch: TeacherBatch, layout: Layout) -> Tensor:
        """Return the images' rows [Q, H] that do not pair a state with an embedding."""
        if layout.images:
            spans = [batch.states[row, first:end] for row, (first, end) in layout.images]
            packed: Tensor = self.compressor(torch.stack(spans))
            return packed.flatten(0, 1)
        rows = batch.states if self.config.kind == "flash" else batch.embeddings
        return rows.flatten(0, 1)[layout.others]
