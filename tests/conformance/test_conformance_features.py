"""Who shares vision features, and which backends there are."""

import json
import shutil
import tomllib
from pathlib import Path

import numpy as np
import pytest

from mmspec.chat.engine import load
from mmspec.chat.plugins import BACKENDS, load_backend, registered
from mmspec.ground.errors import UsageError
from mmspec.ground.threads import VARIABLES
from support import factory
from support.conformance_cases import PICTURES, small


@pytest.fixture(scope="session")
def encoded(engine):
    """The features of two images."""
    cache = engine.target.features
    return [engine.target.model.encode(cache.pixels(each)) for each in PICTURES[:2]]


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


def test_other_sizes_cannot_be_pooled_to(encoded):
    for positions in (0, 2, 9, 64):
        with pytest.raises(UsageError, match=f"pooled to {positions}"):
            encoded[0].pooled(positions)


def test_equal_towers_behind_equal_preprocessing_share_features(
    engine, backend, pair_paths, llama_path, tmp_path
):
    assert engine.target.model.tower == engine.draft.model.tower != ""
    assert engine.draft.features is engine.target.features
    changes = ({"seed": 1}, {"feature_layer": -1}, {"seed": 1, "patch_size": 16})
    paths = [factory.tiny_llava(tmp_path / str(n), **each) for n, each in enumerate(changes)]
    paths.append(shutil.copytree(pair_paths[1], tmp_path / "other"))
    file = paths[-1] / "preprocessor_config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"image_mean": [0.5, 0.5, 0.5]}))
    for path in (*paths, llama_path):
        other = load(str(pair_paths[0]), str(path), backend=backend)
        assert other.draft.features is not other.target.features
        assert (other.draft.features is None) == (path == llama_path)
    towers = {model.model.tower for model in (other.draft, engine.draft)}
    assert towers == {"", engine.target.model.tower}


ROOT = Path(__file__).parent.parent.parent


def test_every_backend_of_the_project_is_declared_where_it_is_installed():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert set(project["entry-points"][BACKENDS]) == {"mlx", "torch"} <= set(registered(BACKENDS))


def test_a_backend_describes_itself_and_counts_an_answers_peak_memory(backend, engine):
    loaded = load_backend(backend)
    assert loaded.name == backend
    assert json.loads(json.dumps(loaded.describe()))["devices"][-1] == "cpu"
    answer = engine.chat(small(engine)).reply("What is this?", PICTURES[:1])
    assert answer.statistics.peak_memory_bytes > 10_000


def test_threads_are_those_asked_for_until_none_are_asked_for(backend, monkeypatch):
    monkeypatch.setattr("mmspec.ground.threads.cores", lambda: 3)
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    loaded = load_backend(backend)
    if backend == "mlx" and loaded.describe()["blas"] != "OpenBLAS":
        pytest.skip("MLX's BLAS here takes no number of threads")
    place = "blas_threads" if backend == "mlx" else "threads"
    try:
        for count, threads in ((3, 3), (None, 2)):
            loaded.set_threads(count)
            assert loaded.describe()[place] == threads
    finally:
        loaded.set_threads(1)
