"""A batch of conversations: tokens, and the target's embeddings and hidden states.

Shape letters: B sequences, L columns (padded at their ends), H width, n columns of one
conversation, m image rows, l layers of DeepStack, A starts.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from mmspec.decoding.contents import Row
from mmspec.decoding.contract import Float32, Segment
from mmspec.drafters.heads.packing import Span
from mmspec.families.family import Vision
from mmspec.families.grid import Grid
from mmspec_torch.network.vision import TorchFeatures
from mmspec_train.data.record import IGNORED, ConversationRecord, lay_out

EMPTY = torch.zeros(0)


@dataclass(frozen=True, slots=True)
class Batch:
    """The tokens of B conversations, their images and, once the teacher has read it, its states."""

    records: tuple[ConversationRecord, ...]
    ids: Tensor
    """[B, L] token ids, padded at the ends."""
    targets: Tensor
    """[B, L] the next token where it belongs to an answer, IGNORED elsewhere."""
    images: tuple[tuple[Span, ...], ...]
    """The columns of the images in each sequence."""
    lengths: tuple[int, ...]
    """The number of columns of each sequence, without padding."""
    positions: Tensor = EMPTY
    """[B, 3, L] rotary positions in the target: time, row and column; 0 for padding."""
    pixels: tuple[Float32, ...] = ()
    """[3, height, width] of each image, in order; may be empty if hidden states are stored."""
    image_rows: Tensor = EMPTY
    """[m, H] stored image rows of all conversations: 1 + l for a position, its embedding first."""
    states: Tensor = EMPTY
    """[B, L, H] hidden states after the last norm, the input of the output matrix."""
    embeddings: Tensor = EMPTY
    """[B, L, H] input embeddings, of tokens and images."""
    deepstack: Tensor = EMPTY
    """[B, L, l H] what images add to the outputs of the first layers, side by side."""
    captured: Tensor = EMPTY
    """[B, L, c H] outputs of the layers that the teacher captures, side by side."""

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


def gather_columns(rows: Tensor, columns: Tensor) -> Tensor:
    """Return rows [B, L, H] at columns [B, A], as [B, A, H]."""
    return rows.gather(1, columns.unsqueeze(-1).expand(-1, -1, rows.shape[-1]))


def in_columns(
    records: Sequence[ConversationRecord], image_id: int, sizes: Sequence[Sequence[int]]
) -> Batch:
    """Pad conversations to the longest; sizes: the columns of each one's images, as `lay_out`'s."""
    laid_out = [lay_out(one, image_id, each) for one, each in zip(records, sizes, strict=True)]
    ids, targets, images = zip(*laid_out, strict=True)
    return Batch(
        tuple(records),
        pad_sequence(list(map(torch.tensor, ids)), batch_first=True),
        pad_sequence(list(map(torch.tensor, targets)), batch_first=True, padding_value=IGNORED),
        images,
        tuple(map(len, ids)),
    )


def collate(
    records: Sequence[ConversationRecord],
    pixels: Sequence[Float32],
    stored: Sequence[Tensor],
    image_id: int,
    vision: Vision | None,
    captured: Sequence[Tensor] = (),
) -> Batch:
    """Lay conversations out in the target's columns.

    stored: [n + m, H] hidden states and image rows of each conversation; captured: [n, c H] those
    of its captured layers. Both are empty if not stored.
    """
    grids = [record.grids(vision) for record in records]
    batch = in_columns(records, image_id, [[grid.positions for grid in each] for each in grids])
    positions = list(map(rotary_positions, batch.lengths, batch.images, grids))
    states = image_rows = EMPTY
    if stored:
        parts = [rows.tensor_split([n]) for rows, n in zip(stored, batch.lengths, strict=True)]
        states = pad_sequence([first for first, _ in parts], batch_first=True)
        image_rows = torch.cat([second for _, second in parts])
    return replace(
        batch,
        positions=pad_sequence(positions, batch_first=True).transpose(1, 2),
        pixels=tuple(pixels),
        image_rows=image_rows,
        states=states,
        captured=pad_sequence(list(captured), batch_first=True) if captured else EMPTY,
    )


def rotary_positions(length: int, images: Sequence[Span], grids: Sequence[Grid]) -> Tensor:
    """Return the rotary positions [n, 3] of a conversation's columns: time, row and column."""
    row: Row[Tensor] = Row()
    for (first, end), grid in zip(images, grids, strict=True):
        row.extend(len(row.tokens), [0] * (first - len(row.tokens)))
        image = TorchFeatures(torch.empty(end - first, 0), grid)
        row.append(first, Segment([image]), lambda image: torch.empty(image.positions, 0))
    row.extend(len(row.tokens), [0] * (length - len(row.tokens)))
    return torch.from_numpy(row.positions(0, length).T)
