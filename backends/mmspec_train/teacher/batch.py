"""Batches of conversations: tokens, and the target's embeddings and hidden states.

Shape letters: B sequences, L columns (padded at their ends), M images, N positions of one image,
H width, n columns of one conversation, m of them an image's, A starts.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from mmspec.drafters.heads.packing import Span
from mmspec.seam import Float32
from mmspec_train.teacher.records import IGNORED, ConversationRecord, lay_out


@dataclass(frozen=True, slots=True)
class StoredStates:
    """The target's hidden states [n, H] and image embeddings [m, H] of one conversation."""

    states: Tensor
    visual: Tensor


@dataclass(frozen=True, slots=True)
class Conversations:
    """The tokens of B conversations."""

    ids: Tensor
    """[B, L] token ids, padded at the ends."""
    targets: Tensor
    """[B, L] the next token where it belongs to an answer, IGNORED elsewhere."""
    images: tuple[tuple[Span, ...], ...]
    """The columns of the images in each sequence."""
    lengths: tuple[int, ...]
    """The number of columns of each sequence, without padding."""

    @property
    def learned(self) -> Tensor:
        """[B, L] True where the next token is trained: a token of an answer, or its stop token."""
        return self.targets != IGNORED

    @property
    def learned_row(self) -> Tensor:
        """[B, L] number of each column that has a loss, counted from 0 through the whole batch.

        A column without a loss has the number of the last one before it, -1 if there is none.
        """
        return self.learned.flatten().cumsum(0).view(self.learned.shape) - 1

    @property
    def visual(self) -> Tensor:
        """[B, L] True at the columns of images."""
        visual = torch.zeros(self.ids.shape, dtype=torch.bool)
        for row, spans in enumerate(self.images):
            for first, end in spans:
                visual[row, first:end] = True
        return visual.to(self.ids.device)


@dataclass(frozen=True, slots=True)
class ConversationBatch(Conversations):
    """Conversations with their images or, if stored, the target's hidden states."""

    pixels: tuple[Float32, ...]
    """[3, height, width] of each image, in order; may be empty if hidden states are stored."""
    states: Tensor
    """[B, L, H] hidden states, or [0] if none are stored."""
    image_embeddings: Tensor
    """[M, N, H] image embeddings, or [0] if none are stored."""

    @property
    def is_stored(self) -> bool:
        """True if the batch contains stored hidden states."""
        return self.states.numel() > 0


@dataclass(frozen=True, slots=True)
class TeacherBatch(Conversations):
    """Conversations with the target's hidden states."""

    states: Tensor
    """[B, L, H] hidden states after the last norm, the input of the output matrix."""
    embeddings: Tensor
    """[B, L, H] input embeddings, of tokens and images."""
    captured: Tensor
    """[B, L, c H] outputs of the layers that the teacher captures, side by side."""


def gather_columns(rows: Tensor, columns: Tensor) -> Tensor:
    """Return rows [B, L, H] at columns [B, A], as [B, A, H]."""
    return rows.gather(1, columns.unsqueeze(-1).expand(-1, -1, rows.shape[-1]))


def collate(
    records: Sequence[ConversationRecord],
    pixels: Sequence[Float32],
    stored: Sequence[StoredStates],
    image_id: int,
    positions: int,
) -> ConversationBatch:
    """Pad conversations to the longest; `stored` is empty or has one item per conversation."""
    columns = [lay_out(record, image_id, positions) for record in records]
    ids, targets, images = zip(*columns, strict=True)
    states = image_embeddings = torch.zeros(0)
    if stored:
        states = pad_sequence([s.states for s in stored], batch_first=True)
        rows = torch.cat([s.visual for s in stored])
        image_embeddings = rows.view(-1, max(positions, 1), rows.shape[-1])
    return ConversationBatch(
        pad_sequence(list(map(torch.tensor, ids)), batch_first=True),
        pad_sequence(list(map(torch.tensor, targets)), batch_first=True, padding_value=IGNORED),
        images,
        tuple(map(len, ids)),
        tuple(pixels),
        states,
        image_embeddings,
    )
