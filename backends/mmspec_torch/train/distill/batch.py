"""A batch of recorded conversations, as one process hands it to another.

Shape letters: B sequences, L columns (padded at their ends), M images, N positions of one image,
H width.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from mmspec.heads.outline import Span
from mmspec.seam import Float32
from mmspec_torch.train.conversation import IGNORED
from mmspec_torch.train.distill.record import Encoded


@dataclass(frozen=True, slots=True)
class Batch:
    """Conversations with their images, or with what the target made of both."""

    ids: Tensor
    """[B, L]"""
    targets: Tensor
    """[B, L] the token that came after a column of an answer, IGNORED elsewhere."""
    images: tuple[tuple[Span, ...], ...]
    """Where the images of each sequence are."""
    lengths: tuple[int, ...]
    """Columns of each sequence, padding left out."""
    pixels: tuple[Float32, ...]
    """All images in order; perhaps none where hidden states are stored."""
    states: Tensor
    """[B, L, H] hidden states, or [0]."""
    visual: Tensor
    """[M, N, H] embeddings of the images, or [0]."""

    @property
    def is_stored(self) -> bool:
        """Whether the target has read it before."""
        return self.states.numel() > 0

    @property
    def learned(self) -> Tensor:
        """[B, L] whether a token of an answer, or its end, came after a column."""
        return self.targets != IGNORED

    @property
    def samples(self) -> int:
        """Conversations in the batch."""
        return len(self.ids)

    @property
    def tokens(self) -> int:
        """Columns in the batch, padding included."""
        return self.ids.numel()


@dataclass(frozen=True, slots=True)
class Stored:
    """One conversation as the target read it: states [n, H] and visual embeddings [m, H]."""

    states: Tensor
    visual: Tensor


def collate(
    samples: Sequence[Encoded], pixels: Sequence[Float32], stored: Sequence[Stored], positions: int
) -> Batch:
    """Pad conversations to the longest; `stored` is empty or has one of each."""
    length = max(len(sample.ids) for sample in samples)
    ids = np.zeros((len(samples), length), np.int64)
    targets = np.full((len(samples), length), IGNORED, np.int64)
    for row, sample in enumerate(samples):
        ids[row, : len(sample.ids)] = sample.ids
        targets[row, : len(sample.ids)] = sample.targets
    states = [each.states for each in stored]
    visual = [each.visual for each in stored]
    nothing = torch.zeros(0)
    return Batch(
        torch.from_numpy(ids),
        torch.from_numpy(targets),
        tuple(sample.images for sample in samples),
        tuple(len(sample.ids) for sample in samples),
        tuple(pixels),
        torch.nn.utils.rnn.pad_sequence(states, batch_first=True) if stored else nothing,
        torch.cat(visual).view(-1, max(positions, 1), visual[0].shape[-1]) if stored else nothing,
    )
