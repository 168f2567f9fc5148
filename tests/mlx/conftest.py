"""A pair of tiny models on MLX, and one prompt as their branches see it."""

import pytest

from mmspec_mlx.backend import MlxBackend
from support import sequence_helpers as helpers


@pytest.fixture(scope="module")
def pair(pair_paths):
    return [MlxBackend().load(path) for path in pair_paths]


@pytest.fixture(scope="module")
def views(pair):
    return helpers.views_of(pair[0])
