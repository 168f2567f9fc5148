"""Where the slots of a batch of sequences go, row by row; see `mmspec.heads.outline`.

Shape letters: B sequences, L columns, R rows, P pairs, Q rows of another kind.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from mmspec.heads.outline import Outline, Span
from mmspec_torch.train.heads.lesson import Lesson

_OTHER = 1 << 40
"""Added to the place of a row that is no pair, until the number of pairs is known."""
Places = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Layout:
    """Rows as indices; slots as b * L + j, one number for sequence and column."""

    pairs: Tensor
    """[P] slots that pair a hidden state with the next embedding."""
    others: Tensor
    """[Q] columns fed as they are in place of a pair; none where images are packed."""
    images: list[tuple[int, Span]]
    """Sequence and columns of each image that is packed."""
    rows: Tensor
    """[B, R] of each row its place among pairs, then others or latents."""
    row: Tensor
    """[B, L] the row of each slot that is a pair."""


def layout(lesson: Lesson, *, apart: bool, packed: int) -> Layout:
    """Lay the slots of a lesson out for a head that keeps images apart, or packs them."""
    builder = _Builder(lesson.ids.shape[1], packed)
    for number, (columns, images) in enumerate(zip(lesson.lengths, lesson.images, strict=True)):
        outline = Outline(apart, packed, columns, images)
        builder.add(number, outline)
    return builder.built(lesson.ids.device)


class _Builder:
    def __init__(self, width: int, packed: int) -> None:
        self._width, self._packed = width, packed
        self._pairs: list[Places] = [np.zeros(0, np.int64)]
        self._others: list[Places] = [np.zeros(0, np.int64)]
        self._images: list[tuple[int, Span]] = []
        self._rows: list[Places] = []
        self._row: list[Places] = []
        self._counts = [0, 0]

    def add(self, number: int, outline: Outline) -> None:
        """Lay one sequence out."""
        rows: list[Places] = [np.zeros(0, np.int64)]
        row = np.zeros(self._width, np.int64)
        for run in outline.runs(0, outline.slots):
            slots = np.arange(run.start, run.stop)
            if run.image is None:
                row[slots] = np.arange(len(slots)) + sum(map(len, rows))
                rows.append(self._placed(self._pairs, slots + number * self._width, 0))
            elif self._packed:
                self._images.append((number, run.image))
                rows.append(self._numbered(self._packed))
            else:
                nexts = slots + number * self._width + 1
                rows.append(self._placed(self._others, nexts, 1) + _OTHER)
        self._rows.append(np.concatenate(rows))
        self._row.append(row)

    def _placed(self, into: list[Places], places: Places, kind: int) -> Places:
        into.append(places)
        first = self._counts[kind]
        self._counts[kind] += len(places)
        return np.arange(first, first + len(places))

    def _numbered(self, count: int) -> Places:
        first = self._counts[1]
        self._counts[1] += count
        return np.arange(first, first + count) + _OTHER

    def built(self, device: torch.device) -> Layout:
        """All sequences, rows padded with the first."""
        longest = max(map(len, self._rows))
        rows = np.zeros((len(self._rows), longest), np.int64)
        for number, some in enumerate(self._rows):
            rows[number, : len(some)] = np.where(
                some >= _OTHER, some - _OTHER + self._counts[0], some
            )
        parts = (np.concatenate(self._pairs), np.concatenate(self._others), rows)
        pairs, others, placed = (torch.from_numpy(part).to(device) for part in parts)
        row = torch.from_numpy(np.stack(self._row)).to(device)
        return Layout(pairs, others, self._images, placed, row)
