"""The real models load strictly, by their headers alone: no weights are needed."""

from pathlib import Path

import pytest

from mmspec.checkpoints.config import read_config
from mmspec.checkpoints.loading_plan import plan
from mmspec.checkpoints.manifest import manifest
from mmspec.families.llava import PATCHES
from support.full_size import FULL_SIZE


@pytest.fixture(scope="module", params=FULL_SIZE)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def directory(name: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return FULL_SIZE[name].write(tmp_path_factory.mktemp("full") / "model")


def test_the_whole_checkpoint_is_planned(name, directory):
    config = read_config(directory)
    sources = plan(directory, config)
    assert {path: source.shape for path, source in sources.items()} == manifest(config)
    mlx = FULL_SIZE[name].quantized
    if config.vision is not None:
        assert sources[PATCHES].layout == ("mlx" if mlx else "torch")
    packed = {path for path, source in sources.items() if source.packing}
    assert bool(packed) == mlx
    plain = {path for path in sources.keys() - packed if len(sources[path].shape) == 2}
    assert all(path.startswith(("vision_", "multi_")) for path in plain) or not mlx
    assert bool(plain) == (name != "llava-1.5-7b mlx")
