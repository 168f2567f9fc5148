"""Sequences cut anywhere, uneven rows, drafts of the host; shared features, what backends say."""

import json
import shutil
import tomllib
from pathlib import Path

import numpy as np
import pytest

from mmspec.chat.engine import load
from mmspec.chat.plugins import load_backend
from mmspec.decoding.contract import Segment
from mmspec.decoding.sampling import GREEDY
from mmspec.families.grid import Grid
from mmspec.ground.entry_points import BACKENDS, plugins_of
from mmspec.ground.threads import VARIABLES
from support import factory
from support import sequence_helpers as helpers
from support.conformance_cases import (
    PICTURES,
    small,
)
from support.factory_layouts import change_json
from support.sequence_helpers import features, flat, segment_of


@pytest.fixture(scope="session")
def pair(engine):
    """A target's model and a draft's."""
    return [engine.target.model, engine.draft.model]


@pytest.fixture(scope="session")
def views(pair):
    """One prompt of two images as M, T and P see it."""
    return helpers.views_of(pair[0])


def test_a_target_cut_anywhere_continues_like_a_cold_one(pair, views):
    """Also inside an image, among drafted tokens, and with nothing appended to nothing."""
    target, (image, _) = pair[0].open_target(GREEDY), features(views[0])
    later = segment_of([50, *[helpers.IMAGE] * 16, 51], [image])
    target.extend(Segment([[]]))
    for cut in (0, 2, 5, 12, 19, 22, 23, 38, 42, 43, 45):
        target.rewind(0)
        target.extend(views[0])
        drafter = helpers.branches(pair[1], views)
        tokens = helpers.tokens(helpers.rounds(target, drafter, 3, gamma=2))
        target.rewind(cut)
        assert target.length == cut
        for segment in (later, Segment([[52]])):
            target.extend(segment)
        cold = helpers.target(pair[0], beginning(views[0], tokens, cut))
        cold.extend(Segment([*later.parts, [52]]))
        np.testing.assert_allclose(target.logits(), cold.logits(), atol=1e-5)


def beginning(segment, tokens, cut):
    """The first `cut` tokens, the last image perhaps not whole."""
    ids = [*flat(segment), *tokens][:cut]
    left, images = ids.count(helpers.IMAGE), []
    for image in features(segment):
        if left:
            images.append(type(image)(image.rows[:left], Grid(1, min(left, image.positions))))
        left = max(left - image.positions, 0)
    return segment_of(ids, images)


def test_a_row_of_one_token_beside_longer_ones_drafts_as_alone(pair):
    """Its first columns are padding alone."""
    short = Segment([[42]])
    together, alone = (helpers.branches(pair[1], rows) for rows in ([short, helpers.TEXT], [short]))
    assert helpers.draft(together, 4, 1.0, 0.0).ids.tolist() == helpers.draft(alone, 4).ids.tolist()


@pytest.mark.parametrize("side", [1, 2])
def test_pooling_averages_squares_of_the_grid(engine, side):
    features, block = engine.target.features(PICTURES[0]), 4 // side
    grid = features.numpy().reshape(4, 4, -1)
    squares = [
        grid[y : y + block, x : x + block].mean((0, 1))
        for y in range(0, 4, block)
        for x in range(0, 4, block)
    ]
    pooled = features.pool(side * side)
    assert pooled.positions == side * side
    np.testing.assert_allclose(pooled.numpy(), squares, atol=1e-5)
    assert features.pool(side * side) is pooled


def test_equal_towers_behind_equal_preprocessing_share_features(
    engine, backend, pair_paths, llama_path, tmp_path
):
    """Also where the draft is an MLX conversion that is not quantized."""
    assert engine.target.model.tower == engine.draft.model.tower != ""
    converted = factory.quantized(pair_paths[1], tmp_path / "mlx", 0)
    for shares in (engine, load(pair_paths[0], converted, backend=backend)):
        assert shares.draft.features is shares.target.features
    changes = ({"seed": 1}, {"feature_layer": -1}, {"feature_layer": 1}, {"patch_size": 16})
    paths = [factory.tiny_llava(tmp_path / str(n), **each) for n, each in enumerate(changes)]
    paths.append(shutil.copytree(pair_paths[1], tmp_path / "other"))
    change_json(paths[-1] / "preprocessor_config.json", image_mean=[0.5, 0.5, 0.5])
    for path in (*paths, llama_path):
        other = load(pair_paths[0], path, backend=backend)
        assert other.draft.features is not other.target.features
        assert (other.draft.features is None) == (path == llama_path)
    towers = {model.model.tower for model in (other.draft, engine.draft)}
    assert towers == {"", engine.target.model.tower}


ROOT = Path(__file__).parent.parent.parent


def test_every_backend_of_the_project_is_declared_where_it_is_installed():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert set(project["entry-points"][BACKENDS]) == {"mlx", "torch"} <= set(plugins_of(BACKENDS))


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
