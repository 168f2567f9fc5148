"""What growing and keeping trees needs of MLX."""

import mlx.core as mx
import numpy as np

from mmspec_mlx.network.rotary import Rotary


def test_tokens_turned_one_by_one_are_turned_as_by_the_table():
    """The way a GPU takes, whose kernel knows one position per row, and the way a CPU takes."""
    rotary = Rotary(16, 10000.0, mx.float32)
    x = mx.random.normal((2, 3, 5, 16), key=mx.random.key(1))
    positions = mx.array([[7, 8, 8, 9, 9], [2, 3, 3, 3, 4]])
    kernel, table = rotary._separately(x, positions), rotary.each(positions, 9)(x)
    np.testing.assert_allclose(np.array(kernel), np.array(table), atol=1e-5)
    run = rotary.at([7, 2], 2)(x[:, :, :2])
    np.testing.assert_allclose(np.array(table[:, :, :2]), np.array(run), atol=1e-6)
