"""What is spelled out for a CPU equals what MLX fuses for a GPU."""

import mlx.core as mx
import numpy as np
import pytest

from mmspec.families.decoder import RotaryScaling
from mmspec_mlx.device.kernels import CPU, CPU_FLOAT32, GPU, kernels
from mmspec_mlx.device.products import FEW, for_few_rows, plain
from mmspec_mlx.network.rotary import Rotary


def close(ours, theirs, atol=2e-6):
    np.testing.assert_allclose(np.array(ours), np.array(theirs), atol=atol)


def random(*shape, scale=1.0):
    return mx.random.normal(shape, key=mx.random.key(sum(shape))) * scale


def test_kernels_are_chosen_by_device_and_type(monkeypatch):
    assert kernels(mx.float32) is CPU_FLOAT32
    assert kernels(mx.float16) is CPU
    assert CPU.compile(len) is CPU_FLOAT32.compile(len) is len
    monkeypatch.setattr(mx, "default_device", lambda: mx.Device(mx.gpu))
    assert kernels(mx.float32) is kernels(mx.float16) is GPU
    assert GPU.compile is mx.compile


def test_the_norm_even_of_nothing_and_the_gate_even_where_it_saturates():
    for shape in ((2, 3, 64), (2, 1, 64), (1, 64), (5, 64)):
        x, weight = random(*shape, scale=30.0), random(64)
        close(*(each.rms_norm(weight, 1e-5)(x) for each in (CPU, CPU_FLOAT32)), atol=1e-5)
        close(*(each.rms_norm(weight, 1e-5)(x * 0) for each in (CPU, CPU_FLOAT32)))
    gate, up = mx.array([-200.0, -90.0, -1.0, 0.0, 1.0, 90.0, 200.0]), mx.ones((7,))
    close(*(each.swiglu(gate, up) for each in (CPU, CPU_FLOAT32)), atol=1e-5)


@pytest.mark.parametrize("starts", [[0], [5000], [7, 7], [3, 0, 2000]])
@pytest.mark.parametrize("n", [1, 5])
@pytest.mark.parametrize("scaling", [None, RotaryScaling(8.0, 1.0, 4.0, 64)])
def test_a_table_turns_as_the_kernel_does(starts, n, scaling):
    rotary = Rotary(32, 10000.0, mx.float32, scaling=scaling)
    x = random(len(starts), 4, n, 32)
    kernel = rotary._rope(x, offset=mx.array(starts))
    close(rotary.at(starts, n)(x), kernel, atol=2e-3 if max(starts) > 999 else 1e-5)


SHAPES = [(1, 1), (3, 1), (1, 6), (2, 6), (1, FEW), (1, FEW + 1), (2, 40)]


@pytest.mark.parametrize("out", [256 * 3, 1000, 96])
def test_a_matrix_whole_or_in_blocks_multiplies_as_numpy_does(out):
    weight = random(out, 512)
    whole = plain(weight)
    blocked, index = for_few_rows(whole), mx.array([[3, 0], [out - 1, 3]])
    for shape in SHAPES:
        x = random(*shape, 512)
        assert whole(x).shape == (*shape, out)
        for matrix in (whole, blocked):
            close(matrix(x), np.array(x) @ np.array(weight).T, atol=5e-4)
    close(blocked.rows(index), whole.rows(index), atol=0)


def test_a_matrix_that_blocks_do_not_help_stays_whole():
    """As it is small already, too large to hold twice, or computed in another way."""
    large = mx.zeros((2048, 1024))
    for weight in (mx.zeros((32, 32)), large, mx.zeros((1024, 512), mx.bfloat16)):
        matrix = plain(weight)
        assert for_few_rows(matrix) is matrix


def test_tokens_turned_one_by_one_are_turned_as_by_the_table():
    """The way a GPU takes, whose kernel knows one position per row, and the way a CPU takes."""
    rotary = Rotary(16, 10000.0, mx.float32)
    x = mx.random.normal((2, 3, 5, 16), key=mx.random.key(1))
    positions = mx.array([[7, 8, 8, 9, 9], [2, 3, 3, 3, 4]])
    kernel, table = rotary._separately(x, positions), rotary.at_positions(positions, 9)(x)
    np.testing.assert_allclose(np.array(kernel), np.array(table), atol=1e-5)
    run = rotary.at([7, 2], 2)(x[:, :, :2])
    np.testing.assert_allclose(np.array(table[:, :, :2]), np.array(run), atol=1e-6)
