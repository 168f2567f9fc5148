"""A pair of tiny models on MLX, and one prompt as their branches see it."""

import mlx_oracle as oracle
import pytest

from mmspec_mlx.backend import MlxBackend


@pytest.fixture(scope="module")
def pair(pair_paths):
    return [MlxBackend().load(path) for path in pair_paths]


@pytest.fixture(scope="module")
def views(pair):
    """One prompt with two images as M, T and P see it."""
    images = [pair[0].encode(oracle.pixels(32, seed)) for seed in (0, 1)]
    return [
        oracle.prompt(images),
        oracle.TEXT,
        oracle.prompt([image.pooled(4) for image in images]),
    ]
