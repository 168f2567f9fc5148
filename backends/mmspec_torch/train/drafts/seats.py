"""A conversation as a draft reads it: the target's columns, images in fewer of them.

Shape letters: B sequences, L the target's columns, S the draft's, P positions of one image, n
learned columns, row-major: the same ones in the same order for both.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from mmspec.heads.outline import Span

Ids = npt.NDArray[np.int64]
PLACE = -1
"""Stands for a position of an image."""


class Columns(Protocol):
    """What a batch and a lesson say of their columns; see `mmspec_torch.train.heads.lesson`."""

    @property
    def ids(self) -> Tensor:
        """[B, L]"""

    @property
    def learned(self) -> Tensor:
        """[B, L]"""

    @property
    def images(self) -> tuple[tuple[Span, ...], ...]:
        """Of each sequence."""

    @property
    def lengths(self) -> tuple[int, ...]:
        """Of each sequence."""


@dataclass(frozen=True, slots=True)
class Seats:
    """Columns of a draft."""

    ids: Tensor
    """[B, S]"""
    places: Tensor
    """[B, S] whether a column is a position of an image whose features are put there."""
    learned: Tensor
    """[n] of each learned column its place in B · S."""
    following: Tensor
    """[m] places in B · S that a column of the same sequence follows."""


def seats(columns: Columns, positions: int, blank: int) -> Seats:
    """Give every image `positions` columns of id `blank`, or one of it that is text where 0."""
    ids, learned = columns.ids.cpu().numpy(), columns.learned.cpu().numpy()
    origins = [
        _origins(length, images, positions or 1)
        for length, images in zip(columns.lengths, columns.images, strict=True)
    ]
    width = max(map(len, origins))
    laid = np.full((3, len(origins), width), 0, np.int64)
    follows = np.zeros((len(origins), width), bool)
    for row, taken in enumerate(origins):
        text = taken != PLACE
        laid[0, row, : len(taken)] = np.where(text, ids[row, taken], blank)
        laid[1, row, : len(taken)] = ~text
        laid[2, row, : len(taken)] = text & learned[row, taken]
        follows[row, : len(taken) - 1] = True
    device = columns.ids.device
    fed, places, kept = (torch.from_numpy(part).to(device) for part in laid)
    after = torch.from_numpy(np.flatnonzero(follows)).to(device)
    return Seats(fed, places.bool() & bool(positions), kept.flatten().nonzero().flatten(), after)


def _origins(length: int, images: Sequence[Span], positions: int) -> Ids:
    """Of each of a draft's columns the target's, or PLACE."""
    parts: list[Ids] = []
    start = 0
    for first, end in images:
        parts += [np.arange(start, first), np.full(positions, PLACE)]
        start = end
    return np.concatenate([*parts, np.arange(start, length)])
