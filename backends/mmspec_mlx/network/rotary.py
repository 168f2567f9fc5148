"""Rotary position embeddings (Su et al. 2021), in the rotate-half form of Llama checkpoints."""

from collections.abc import Callable, Sequence
from functools import partial

import mlx.core as mx
import numpy as np

from mmspec.decoding.contents import Row
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
        self._frequencies = scaling.scale(frequencies) if scaling else frequencies
        # MLX's kernel takes a base, or the inverses of frequencies.
        inverses = mx.array(1 / self._frequencies) if scaling else None
        kernel_base, rope = None if scaling else base, partial(mx.fast.rope, traditional=False)
        self._rope = partial(rope, dims=width, base=kernel_base, scale=1.0, freqs=inverses)
        self._axes = [*axes, *axes] or [0] * width
        self._width = width
        self._dtype = dtype
        self._cos = self._sin = mx.zeros((0, width), dtype)

    def at(self, starts: Sequence[int], n: int) -> Rotation:
        """Return a rotation of x [R, heads, n, width]; row r is at positions starts[r] onwards."""
        if mx.default_device() == mx.Device(mx.gpu):
            return partial(self._rope, offset=mx.array(list(starts), dtype=mx.int32))
        self._grow(max(starts) + n)
        first = starts[0]
        if all(start == first for start in starts):
            return self._rotation(self._cos[first : first + n], self._sin[first : first + n])
        index = mx.expand_dims(mx.array(list(starts)), (1, 2)) + mx.arange(n)
        return self._rotation(self._cos[index], self._sin[index])

    def along(self, rows: Sequence[Row[mx.array]], start: int, stop: int) -> Rotation:
        """Return a rotation of the rows' columns, of which those of a draft count up.

        The positions of padding are arbitrary.
        """
        counts_up = (row.counts_up(start, stop) for row in rows)
        if all(counts_up) and all(row.shift(start) == row.shift(stop) for row in rows):
            return self.at([row.position(start) for row in rows], stop - start)
        return self.planes(np.stack([row.positions(start, stop) for row in rows]))

    def at_positions(self, positions: mx.array, furthest: int) -> Rotation:
        """Return a rotation of x [R, heads, n, width] to positions [R, n], at most `furthest`."""
        if mx.default_device() == mx.Device(mx.gpu):
            return lambda x: self._separately(x, positions)
        self._grow(furthest + 1)
        index = mx.expand_dims(positions, 1)
        return self._rotation(self._cos[index], self._sin[index])

    def planes(self, positions: Positions) -> Rotation:
        """Return a rotation of x [R, heads, n, width] to positions [R, 3, n]: time, row, column."""
        self._grow(int(positions.max()) + 1)
        index = mx.array(positions[:, self._axes].transpose(0, 2, 1)), mx.arange(self._width)
        cos, sin = (mx.expand_dims(table[index], 1) for table in (self._cos, self._sin))
        return self._rotation(cos, sin)

    def _separately(self, x: mx.array, positions: mx.array) -> mx.array:
        """Rotate each token as a row of its own: the kernel takes one offset per row."""
        rows, heads, n, width = x.shape
        alone = x.swapaxes(1, 2).reshape(rows * n, heads, 1, width)
        output = self._rope(alone, offset=positions.reshape(-1))
        return output.reshape(rows, n, heads, width).swapaxes(1, 2)

    def _rotation(self, cos: mx.array, sin: mx.array) -> Rotation:
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
        angles = np.outer(np.arange(length, dtype=np.float32), self._frequencies)
        cos, sin = np.cos(angles), np.sin(angles)
        self._cos = mx.array(np.hstack([cos, cos])).astype(self._dtype)
        self._sin = mx.array(np.hstack([-sin, sin])).astype(self._dtype)
