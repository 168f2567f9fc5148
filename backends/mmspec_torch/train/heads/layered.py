"""EAGLE, MSD and FLASH to train: a fusion, one decoder layer, and what sets them apart.

Shape letters: B sequences, L columns, R rows, A starts, D depths, H width, C queries, K slots.
"""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mmspec.config import TextConfig
from mmspec.heads.config import HeadConfig
from mmspec_torch.train.heads.layer import DecoderLayer, Memory, Norm
from mmspec_torch.train.heads.layout import Layout, layout
from mmspec_torch.train.heads.lesson import Lesson, Starts

Follow = Callable[[Tensor], Tensor]
"""From features [B, A, H] to the embeddings [B, A, H] of the tokens that they say."""


def fed(
    feature: Tensor, lesson: Lesson, starts: Starts, depth: int, follow: Follow | None
) -> Tensor:
    """Embeddings [B, A, H] of the tokens at a depth: those that came, or as `follow` says."""
    if follow:
        return follow(feature)
    return lesson.at(lesson.embeddings, starts.after(depth))


class Compressor(nn.Module):
    """Learned queries that read an image's hidden states (FLASH, section 3.2)."""

    def __init__(self, queries: int, width: int, eps: float) -> None:
        """Start from small random queries."""
        super().__init__()
        self.queries = nn.Parameter(0.02 * torch.randn(queries, width))
        self.norm = Norm(width, eps)

    def forward(self, states: Tensor) -> Tensor:
        """Pack states [M, N, H] of M images into latents [M, C, H]."""
        scores = self.queries @ self.norm(states).transpose(-1, -2) / states.shape[-1] ** 0.5
        return torch.matmul(scores.softmax(dim=-1).to(states.dtype), states)


class Layered(nn.Module):
    """A head with a decoder layer."""

    def __init__(self, config: HeadConfig, text: TextConfig) -> None:
        """Build it with random weights, the layer adding nothing at first."""
        super().__init__()
        self.config = config
        width = config.hidden_size
        self.fc = nn.Linear(2 * width, width, bias=config.bias)
        layer = DecoderLayer(text, input_norm=config.input_norm, qkv_bias=config.qkv_bias)
        nn.init.zeros_(layer.self_attn.o_proj.weight)
        nn.init.zeros_(layer.mlp.down_proj.weight)
        self.layers = nn.ModuleList([layer])
        if config.queries:
            self.compressor = Compressor(config.queries, width, text.rms_norm_eps)
        self.slots = nn.ModuleList(nn.Linear(width, width) for _ in range(config.slots))
        for slot in self.slots.parameters():
            nn.init.zeros_(slot)

    def forward(self, lesson: Lesson, starts: Starts, follow: Follow | None = None) -> Tensor:
        """Features [D, B, A, H] of the guesses from every start.

        follow: what the head feeds itself with; by default the tokens that did come, of which a
        guess is fed as long as it is right.
        """
        placed = self._layout(lesson)
        x = self._rows(lesson, placed)
        layer = self._layer
        count = torch.arange(x.shape[1], device=x.device)
        known: Memory = layer.memory(x, count.expand(len(x), -1))
        at = placed.row.gather(1, (starts.columns - 1).clamp(min=0))
        seen = count <= at.unsqueeze(-1)
        feature = layer(lesson.at(x, at), at, known, seen, [])
        if self.slots:
            places = list(self.slots)[: starts.depth]
            return torch.stack([feature + F.silu(place(feature)) for place in places])
        return torch.stack(self._chain(feature, lesson, starts, (at, known, seen), follow))

    def _chain(
        self,
        feature: Tensor,
        lesson: Lesson,
        starts: Starts,
        seen: tuple[Tensor, Memory, Tensor],
        follow: Follow | None,
    ) -> list[Tensor]:
        """Feed the head its own features: training-time test (EAGLE-3; HASS, section 3.2)."""
        layer = self._layer
        at, known, rows = seen
        features, chain = [feature], []
        for depth in range(1, starts.depth):
            told = fed(features[-1], lesson, starts, depth, follow)
            x = self.fc(torch.cat((told, features[-1]), dim=-1)).float()
            chain.append(layer.memory(x, at + depth))
            features.append(layer(x, at + depth, known, rows, chain))
        return features

    @property
    def _layer(self) -> DecoderLayer:
        layer = self.layers[0]
        assert isinstance(layer, DecoderLayer)
        return layer

    def _layout(self, lesson: Lesson) -> Layout:
        return layout(lesson, apart=self.config.apart, packed=self.config.queries)

    def _rows(self, lesson: Lesson, placed: Layout) -> Tensor:
        """What the layer is fed, [B, R, H]."""
        states, embeddings = lesson.states.flatten(0, 1), lesson.embeddings.flatten(0, 1)
        paired = torch.cat((embeddings[placed.pairs + 1], states[placed.pairs]), dim=-1)
        fused = self.fc(paired).float()
        return torch.cat((fused, self._others(lesson, placed).float()))[placed.rows]

    def _others(self, lesson: Lesson, placed: Layout) -> Tensor:
        """Rows [Q, H] that are no pairs: latents, hidden states (FLASH), embeddings (MSD)."""
        if placed.images:
            spans = [lesson.states[row, first:end] for row, (first, end) in placed.images]
            packed: Tensor = self.compressor(torch.stack(spans))
            return packed.flatten(0, 1)
        read = lesson.states if self.config.kind == "flash" else lesson.embeddings
        return read.flatten(0, 1)[placed.others]
