"""Lays conversations out for a draft, in which an image takes fewer columns than in the target.

Shape letters: B sequences, S columns of the draft, n learned columns (row-major, the same in the
target and the draft), m columns with a successor.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from mmspec.drafters.heads.packing import Span
from mmspec_train.data.batch import Batch

Ids = npt.NDArray[np.int64]
IMAGE_POSITION = -1
"""Marks a draft column that is a position of an image."""


@dataclass(frozen=True, slots=True)
class DraftColumns:
    """A batch of conversations, laid out in the columns of a draft."""

    ids: Tensor
    """[B, S] token ids; an image's columns have the id `blank`."""
    visual: Tensor
    """[B, S] True at the positions of images."""
    learned: Tensor
    """[n] flat indices (row · S + column) of the learned columns."""
    followed: Tensor
    """[m] flat indices of the columns that have a next column in their sequence."""


def to_draft_columns(conversations: Batch, positions: int, blank: int) -> DraftColumns:
    """Return the draft's columns: an image takes `positions` of them, or one if that is 0."""
    ids, learned = conversations.ids.cpu().numpy(), conversations.learned.cpu().numpy()
    origins = [
        _origins(length, images, positions or 1)
        for length, images in zip(conversations.lengths, conversations.images, strict=True)
    ]
    shape = len(origins), max(map(len, origins))
    draft_ids, visual = np.zeros(shape, np.int64), np.zeros(shape, bool)
    draft_learned, followed = np.zeros(shape, bool), np.zeros(shape, bool)
    for row, origin in enumerate(origins):
        text, width = origin != IMAGE_POSITION, len(origin)
        draft_ids[row, :width] = np.where(text, ids[row, origin], blank)
        visual[row, :width] = ~text & bool(positions)
        draft_learned[row, :width] = text & learned[row, origin]
        followed[row, : width - 1] = True
    arrays = draft_ids, visual, np.flatnonzero(draft_learned), np.flatnonzero(followed)
    return DraftColumns(*(torch.from_numpy(array).to(conversations.ids.device) for array in arrays))


def _origins(length: int, images: Sequence[Span], positions: int) -> Ids:
    """Return, for each column of a draft, the target's column, or IMAGE_POSITION."""
    parts: list[Ids] = []
    start = 0
    for first, end in images:
        parts += [np.arange(start, first), np.full(positions, IMAGE_POSITION)]
        start = end
    return np.concatenate([*parts, np.arange(start, length)])
