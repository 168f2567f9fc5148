"""What the static forms of a target and of a drafter have in common.

Shape letters: R rows, n columns fed, C columns seen, H width.
"""

from collections.abc import Hashable, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from mmspec_torch.llama import Angles, Llama, Step, hidden
from mmspec_torch.static.cache import Columns, StaticCache
from mmspec_torch.static.capture import Capture, Compute, Outputs, Replays


class Frame:
    """A cache, the computations captured over it, and the tables that they read."""

    def __init__(self, llama: Llama, rows: int, capture: Capture) -> None:
        """Start with an empty cache of `rows` rows."""
        text = llama.config
        sizes = text.num_hidden_layers, rows, text.num_key_value_heads, text.head_dim
        self.llama = llama
        self.cache = StaticCache(*sizes, llama.device, llama.dtype)
        self._replays, self._columns = Replays(capture), 0
        self._angles: dict[int, Angles] = {}
        self._count = self.integers(0)

    def reach(self, end: int) -> int:
        """Have memory for `end` columns, and return how many forwards see."""
        width = self.cache.reach(end)
        if self.cache.columns != self._columns:
            self._columns = self.cache.columns
            self._replays.clear()
            self._count = torch.arange(self._columns, device=self.llama.device)
        if width not in self._angles:  # a graph does not keep what it reads
            self._angles[width] = self.llama.rotary.run(0, width)
        return width

    def run(self, key: Hashable, compute: Compute) -> Outputs:
        """Enqueue a computation, or replay it."""
        return self._replays.run(key, compute)

    def count(self, n: int) -> Tensor:
        """The integers [n] from zero."""
        return self._count[:n]

    def step(
        self, width: int, columns: Tensor, positions: Tensor, shade: Tensor | None = None
    ) -> Step:
        """A forward that feeds columns [n] at positions [R, n] and sees `width` of them.

        shade: [R, 1, 1, C] hides padding; None where no row has any.
        """
        cos, sin = self._angles[width]
        angles = tuple(F.embedding(positions, each).unsqueeze(1) for each in (cos, sin))
        later = self.count(width) > columns.unsqueeze(1)
        mask = cos.new_zeros(later.shape).masked_fill_(later, hidden(cos.dtype))
        if shade is not None:
            mask = mask + shade[..., :width]
        return Step((angles[0], angles[1]), Columns(self.cache, columns, width), mask)

    def integers(self, size: int) -> Tensor:
        """A buffer [size] of integers on the device."""
        return torch.zeros(size, dtype=torch.int64, device=self.llama.device)


def send(values: Sequence[float], to: Tensor) -> None:
    """Write numbers to the front of a buffer on the device, waiting for nothing."""
    cuda = to.device.type == "cuda"
    numbers = torch.tensor(values, dtype=to.dtype, pin_memory=cuda)
    to[: len(values)].copy_(numbers, non_blocking=cuda)
