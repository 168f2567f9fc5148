"""Rotary position embeddings.

Shape letters: R rows, n columns fed, D head size.
"""

from collections.abc import Iterator, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from mmspec.decoding.contents import Row
from mmspec.decoding.stored_states import STEP
from mmspec.families.decoder import TextConfig
from mmspec.ground.arrays import Positions
from mmspec_torch.device.device_io import upload

Angles = tuple[Tensor, Tensor]
"""Cosines and signed sines of positions, broadcast to [R, heads, n, D]."""


class Rotary:
    """The cosines and sines of all positions so far, in a table that grows."""

    def __init__(self, config: TextConfig, device: torch.device, dtype: torch.dtype) -> None:
        """Compute tables in float32, then round them to `dtype`."""
        width, axes = config.rotary_dim or config.head_dim, config.rotary_axes
        steps = torch.arange(0, width, 2, dtype=torch.int64).float()
        self._frequencies = 1.0 / config.rope_theta ** (steps / width)
        if scaling := config.rotary_scaling:
            self._frequencies = torch.from_numpy(scaling.scale(self._frequencies.numpy()))
        self._device, self._dtype = device, dtype
        self._tables = self._compute(STEP)
        self._axes = upload([*axes, *axes], torch.int64, device) if axes else None
        self._numbers = torch.arange(width, device=device)

    def run(self, start: int, end: int) -> Angles:
        """Return the angles of positions `start` to `end`, the same in every row."""
        cos, sin = self._tables_to(end)
        return cos[start:end], sin[start:end]

    def along(self, row: Row[Tensor], start: int, end: int) -> Angles:
        """Return the angles of a row's columns, of which those of a draft count up."""
        if not row.counts_up(start, end):
            return self.planes(row.positions(start, end)[None])
        first = row.position(start)
        return self.run(first, first + end - start)

    def at(self, positions: Sequence[Sequence[int]]) -> Angles:
        """Return the angles of positions [R, n]."""
        cos, sin = self._tables_to(max(max(row) for row in positions) + 1)
        index = upload([list(row) for row in positions], torch.int64, self._device)
        return F.embedding(index, cos).unsqueeze(1), F.embedding(index, sin).unsqueeze(1)

    def planes(self, positions: Positions) -> Angles:
        """Return the angles of positions [R, 3, n] in time, row and column."""
        if self._axes is None:
            return self.at(positions[:, 0].tolist())
        cos, sin = self._tables_to(int(positions.max()) + 1)
        planes = upload(positions.tolist(), torch.int64, self._device)
        index = planes[:, self._axes].transpose(1, 2), self._numbers
        return cos[index].unsqueeze(1), sin[index].unsqueeze(1)

    def runs(self, positions: Sequence[range], sizes: Sequence[int]) -> Iterator[Angles]:
        """Yield the angles of each row's range of positions, `sizes[i]` positions at a time."""
        if len(positions) == 1:
            whole = self.run(positions[0].start, positions[0].stop)
        else:
            whole = self.at(positions)
        cos, sin = (table.split_with_sizes(sizes, dim=-2) for table in whole)
        return zip(cos, sin, strict=True)

    def after(self, start: int, depths: Tensor, deepest: int) -> Angles:
        """Return the angles of positions `start` + depths [n]; depths are at most `deepest`."""
        cos, sin = self._tables_to(start + deepest + 1)
        return cos[depths + start], sin[depths + start]

    def _tables_to(self, end: int) -> Angles:
        if end > len(self._tables[0]):
            self._tables = self._compute(2 * end)
        return self._tables

    def _compute(self, count: int) -> Angles:
        """Return tables [count, D]; the first half of the sines is negated, for `rotate`."""
        half = torch.arange(count).float().unsqueeze(1) * self._frequencies
        cos, sin = half.cos(), half.sin()
        table = torch.cat((cos, cos), dim=1), torch.cat((-sin, sin), dim=1)
        return table[0].to(self._device, self._dtype), table[1].to(self._device, self._dtype)


def rotate(heads: Tensor, angles: Angles) -> None:
    """Rotate heads [R, any, n, D], or as many of their features as have angles, in place."""
    cos, sin = angles
    heads = heads[..., : cos.shape[-1]]
    partners = heads.roll(heads.shape[-1] // 2, dims=-1)
    heads.mul_(cos).addcmul_(partners, sin)
