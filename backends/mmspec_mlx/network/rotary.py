"""Rotary position embeddings (Su et al. 2021), in the rotate-half form of Llama checkpoints."""

from collections.abc import Callable, Sequence

import mlx.core as mx
import numpy as np

from mmspec.families.decoder import RotaryScaling
from mmspec.ground.arrays import Positions

Rotation = Callable[[mx.array], mx.array]

_STEP = 1024


class Rotary:
    """Rotates queries and keys by their positions, which have no upper limit.

    Features after the first `width` of a head stay as they are.

    On a GPU it calls MLX's kernel, which is one launch.  On a CPU the kernel is about fifteen
    operations, so a table of cosines and sines is used, which needs three.
    """

    def __init__(
        self,
        width: int,
        base: float,
        dtype: mx.Dtype,
        axes: Sequence[int] = (),
        scaling: RotaryScaling | None = None,
    ) -> None:
        """axes, scaling: `TextConfig.rotary_axes` and its `rotary_scaling`."""
        steps = np.arange(0, width, 2, dtype=np.float32) / np.float32(width)
        frequencies = np.float32(base) ** -steps
        self._frequencies = scaling.scaled(frequencies) if scaling else frequencies
        # MLX's kernel takes a base, or the inverses of frequencies.
        self._kernel_base = None if scaling else base
        self._inverses = mx.array(1 / self._frequencies) if scaling else None
        self._axes = [*axes, *axes] or [0] * width
        self._width = width
        self._dtype = dtype
        self._cos = self._sin = mx.zeros((0, width), dtype)

    def at(self, starts: Sequence[int], n: int) -> Rotation:
        """Return a rotation of x [R, heads, n, width]; row r is at positions starts[r] onwards."""
        if mx.default_device() == mx.Device(mx.gpu):
            return self._kernel(starts)
        self._grow(max(starts) + n)
        return self._table(starts, n)

    def same(self, positions: Sequence[int], n: int) -> Rotation:
        """Return a rotation of x [R, heads, n, width]; all of row r is at positions[r]."""
        offsets = mx.broadcast_to(mx.expand_dims(mx.array(list(positions)), 1), (len(positions), n))
        return self.each(offsets, max(positions))

    def each(self, positions: mx.array, furthest: int) -> Rotation:
        """Return a rotation of x [R, heads, n, width] to positions [R, n], at most `furthest`."""
        if mx.default_device() == mx.Device(mx.gpu):
            return lambda x: self._separately(x, positions)
        self._grow(furthest + 1)
        index = mx.expand_dims(positions, 1)
        return self._turn(self._cos[index], self._sin[index])

    def planes(self, positions: Positions) -> Rotation:
        """Return a rotation of x [R, heads, n, width] to positions [R, 3, n]: time, row, column."""
        self._grow(int(positions.max()) + 1)
        index = mx.array(positions[:, self._axes].transpose(0, 2, 1)), mx.arange(self._width)
        return self._turn(*(mx.expand_dims(table[index], 1) for table in (self._cos, self._sin)))

    def _separately(self, x: mx.array, positions: mx.array) -> mx.array:
        """Rotate each token as a row of its own: the kernel takes one offset per row."""
        rows, heads, n, width = x.shape
        alone = x.swapaxes(1, 2).reshape(rows * n, heads, 1, width)
        turned = self._roped(alone, positions.reshape(-1))
        return turned.reshape(rows, n, heads, width).swapaxes(1, 2)

    def _roped(self, x: mx.array, offset: mx.array) -> mx.array:
        return mx.fast.rope(
            x,
            self._width,
            traditional=False,
            base=self._kernel_base,
            scale=1.0,
            offset=offset,
            freqs=self._inverses,
        )

    def _kernel(self, starts: Sequence[int]) -> Rotation:
        offset = mx.array(list(starts), dtype=mx.int32)
        return lambda x: self._roped(x, offset)

    def _table(self, starts: Sequence[int], n: int) -> Rotation:
        first = starts[0]
        if all(start == first for start in starts):
            cos, sin = self._cos[first : first + n], self._sin[first : first + n]
        else:
            index = mx.expand_dims(mx.array(list(starts)), (1, 2)) + mx.arange(n)
            cos, sin = self._cos[index], self._sin[index]
        return self._turn(cos, sin)

    def _turn(self, cos: mx.array, sin: mx.array) -> Rotation:
        half, width = self._width // 2, self._width

        def rotate(x: mx.array) -> mx.array:
            if x.shape[-1] > width:
                return mx.concatenate([rotate(x[..., :width]), x[..., width:]], axis=-1)
            return x * cos + mx.roll(x, half, -1) * sin

        return rotate

    def _grow(self, positions: int) -> None:
        if positions <= self._cos.shape[0]:
            return
        length = -(-positions // _STEP) * _STEP
        turns = np.outer(np.arange(length, dtype=np.float32), self._frequencies)
        cos, sin = np.cos(turns), np.sin(turns)
        self._cos = mx.array(np.hstack([cos, cos])).astype(self._dtype)
        self._sin = mx.array(np.hstack([-sin, sin])).astype(self._dtype)
