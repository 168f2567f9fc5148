"""Lays out a batch for a head: which row each slot takes; see `mmspec.drafters.heads.packing`.

Shape letters: B sequences, L columns, R rows, P pairs, Q rows that are no pairs.
"""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from mmspec.drafters.heads.packing import Outline, Span
from mmspec_train.teacher.batch import TeacherBatch


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


def lay_out_slots(batch: TeacherBatch, *, apart: bool, packed: int) -> Layout:
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
