"""What the static forms of a target and a drafter share: a fixed cache and captured forwards.

Shape letters: R rows, n columns fed, C visible columns.
"""

from collections.abc import Hashable, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from mmspec_torch.graphs.cache import StaticCache, StaticSpan
from mmspec_torch.graphs.capture import Capture, Compute, Outputs, Replays
from mmspec_torch.network.decoder import LanguageModel, Step, hidden
from mmspec_torch.network.rotary import Angles


class Frame:
    """A static cache, the computations captured over it, and their rotary tables."""

    def __init__(self, language: LanguageModel, rows: int, capture: Capture) -> None:
        text = language.config
        sizes = text.num_hidden_layers, rows, text.num_key_value_heads, text.head_dim
        self.language = language
        self.cache = StaticCache(*sizes, language.device, language.dtype)
        self._replays, self._columns = Replays(capture), 0
        self._angles: dict[int, Angles] = {}
        self._count = self.integers(0)

    def reach(self, end: int) -> int:
        """Allocate columns up to `end`; returns how many of them a forward sees."""
        width = self.cache.reach(end)
        if self.cache.columns != self._columns:
            self._columns = self.cache.columns
            self._replays.clear()
            self._count = torch.arange(self._columns, device=self.language.device)
        return self.turn(width)

    def turn(self, end: int) -> int:
        """Compute the angles of positions up to `end`; returns how many, a multiple of the step."""
        length = -(-end // self.cache.step) * self.cache.step
        if length not in self._angles:  # graphs read these tables but do not keep them alive
            self._angles[length] = self.language.rotary.run(0, length)
        return length

    def run(self, key: Hashable, compute: Compute) -> Outputs:
        """Run a computation, or replay its capture."""
        return self._replays.run(key, compute)

    def count(self, n: int) -> Tensor:
        """The integers from 0 to n - 1 on the device."""
        return self._count[:n]

    def step(
        self, width: int, columns: Tensor, positions: Tensor, shade: Tensor | None = None
    ) -> Step:
        """Return a forward that feeds columns [n] at positions [R, n] and sees `width` columns.

        shade: mask [R, 1, 1, C] that hides padding; None if no row has any.
        """
        cos, sin = self.angles(width, positions)
        later = self.count(width) > columns.unsqueeze(1)
        mask = cos.new_zeros(later.shape).masked_fill_(later, hidden(cos.dtype))
        if shade is not None:
            mask = mask + shade[..., :width]
        span = StaticSpan(self.cache, columns, width)
        return Step((cos.unsqueeze(1), sin.unsqueeze(1)), span, mask)

    def angles(self, length: int, positions: Tensor) -> Angles:
        """Return the angles [..., D] of positions [...] below `length`, which `turn` returned."""
        cos, sin = self._angles[length]
        return F.embedding(positions, cos), F.embedding(positions, sin)

    def integers(self, size: int) -> Tensor:
        """Return a new buffer [size] of integers on the device."""
        return torch.zeros(size, dtype=torch.int64, device=self.language.device)


def send(values: Sequence[float], to: Tensor) -> None:
    """Copy numbers to the front of a buffer on the device, without waiting."""
    cuda = to.device.type == "cuda"
    numbers = torch.tensor(values, dtype=to.dtype, pin_memory=cuda)
    to[: len(values)].copy_(numbers, non_blocking=cuda)
