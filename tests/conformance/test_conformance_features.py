"""Vision features: whose they are, who may share them, how they are pooled."""

import json
import shutil

import numpy as np
import pytest

from mmspec.chat.engine import load
from mmspec.ground.errors import UsageError
from support import factory
from support.conformance_cases import PICTURES


@pytest.fixture(scope="session")
def encoded(engine):
    """The features of two images."""
    cache = engine.target.features
    return [engine.target.model.encode(cache.pixels(each)) for each in PICTURES[:2]]


def test_another_image_has_other_features(encoded):
    one, two = (features.numpy() for features in encoded)
    assert one.shape == two.shape == (16, 64)
    assert abs(one - two).max() > 0.01


@pytest.mark.parametrize("side", [1, 2])
def test_pooling_averages_squares_of_the_grid(encoded, side):
    features, block = encoded[0], 4 // side
    grid = features.numpy().reshape(4, 4, -1)
    squares = [
        grid[y : y + block, x : x + block].mean((0, 1))
        for y in range(0, 4, block)
        for x in range(0, 4, block)
    ]
    pooled = features.pooled(side * side)
    assert pooled.positions == side * side
    np.testing.assert_allclose(pooled.numpy(), squares, atol=1e-5)
    assert features.pooled(side * side) is pooled


@pytest.mark.parametrize("positions", [0, 2, 9, 64])
def test_other_sizes_cannot_be_pooled_to(encoded, positions):
    with pytest.raises(UsageError, match=f"pooled to {positions}"):
        encoded[0].pooled(positions)


def test_equal_towers_share_features(engine):
    assert engine.target.model.tower == engine.draft.model.tower != ""
    assert engine.draft.features is engine.target.features


@pytest.mark.parametrize(
    "difference",
    [{"seed": 1}, {"feature_layer": -1}, {"seed": 1, "patch_size": 16}],
    ids=["weights", "layer", "patches"],
)
def test_other_towers_look_for_themselves(backend, pair_paths, tmp_path, difference):
    other = factory.tiny_llava(tmp_path / "other", **difference)
    engine = load(str(pair_paths[0]), str(other), backend=backend)
    assert engine.draft.features is not engine.target.features


def test_other_pixels_are_not_shared(backend, pair_paths, tmp_path):
    """The same tower behind another preprocessing."""
    other = tmp_path / "other"
    shutil.copytree(pair_paths[1], other)
    file = other / "preprocessor_config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"image_mean": [0.5, 0.5, 0.5]}))
    engine = load(str(pair_paths[0]), str(other), backend=backend)
    assert engine.draft.model.tower == engine.target.model.tower
    assert engine.draft.features is not engine.target.features


def test_a_blind_draft_has_none(backend, pair_paths, llama_path):
    engine = load(str(pair_paths[0]), str(llama_path), backend=backend)
    assert engine.draft.model.tower == ""
    assert engine.draft.features is None
