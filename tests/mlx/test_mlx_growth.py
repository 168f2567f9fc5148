"""What growing and keeping trees needs of MLX."""

import mlx.core as mx
import numpy as np
import pytest

from mmspec_mlx.framework import top
from mmspec_mlx.network.rotary import Rotary


@pytest.mark.parametrize("steps", [2, 8, 10**6])
def test_of_equals_the_first_is_taken(steps):
    p = np.random.default_rng(steps).integers(0, steps, (4, 3000)).astype(np.float32) / steps
    values, places = top(mx.array(p)[:, :2500], 12)
    expected = np.argsort(-p[:, :2500], axis=-1, kind="stable")[:, :12]
    np.testing.assert_array_equal(np.array(places), expected)
    np.testing.assert_array_equal(np.array(values), np.take_along_axis(p, expected, axis=-1))


def test_tokens_turned_one_by_one_are_turned_as_by_the_table():
    """The way a GPU takes, whose kernel knows one position per row, and the way a CPU takes."""
    rotary = Rotary(16, 10000.0, mx.float32)
    x = mx.random.normal((2, 3, 5, 16), key=mx.random.key(1))
    positions = mx.array([[7, 8, 8, 9, 9], [2, 3, 3, 3, 4]])
    kernel, table = rotary._separately(x, positions), rotary.each(positions, 9)(x)
    np.testing.assert_allclose(np.array(kernel), np.array(table), atol=1e-5)
    run = rotary.at([7, 2], 2)(x[:, :, :2])
    np.testing.assert_allclose(np.array(table[:, :, :2]), np.array(run), atol=1e-6)
