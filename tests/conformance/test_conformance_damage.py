"""Damaged checkpoints and heads are refused by name or do no harm, on every backend."""

from shutil import copytree

import pytest

from support import factory, factory_qwen
from support.damage import batch
from support.damage.subjects import MODELS, PICKLES
from support.factory_fit import fit_head
from support.factory_heads import tiny_head
from support.factory_published import published, specforge


@pytest.fixture(scope="module")
def folder(tmp_path_factory, llava_path, mlx_path):
    """Good files of every subject."""
    folder = tmp_path_factory.mktemp("damage")
    copytree(llava_path, folder / "llava" / "source")
    copytree(mlx_path, folder / "mlx4" / "source")
    factory_qwen.tiny_qwen("qwen3_vl", folder / "qwen" / "source")
    qwen = factory_qwen.tiny_qwen("qwen2_5_vl", folder / "qwen2_5_vl" / "source")
    (folder / "sharded").mkdir()
    factory.tiny_llava(folder / "sharded" / "source", sharded=True)
    for kind in ("eagle", "flash"):
        tiny_head(folder / kind / "source", kind)
    specforge(folder / "eagle3" / "source")
    published(folder / "vispec" / "source", "llava_next", views=2)
    rope = {"type": "mrope", "mrope_section": [2, 3, 3]}
    fit_head(tiny_head(folder / "mrope" / "source", "eagle3", rope_scaling=rope), qwen)
    published(folder / "pickle" / "source", "llava", pickled=True)
    return folder


@pytest.mark.parametrize("count", [36, pytest.param(2400, marks=pytest.mark.slow)])
def test_damaged_checkpoints_are_refused_by_name_or_do_no_harm(folder, backend, count):
    names = [*MODELS, *(PICKLES if backend == "torch" else ())]
    cases = batch.run(folder, names, backend, count=count)
    assert [case for case in cases if not case.is_sound] == []
    assert len(cases) == count
    assert {case.outcome for case in cases} == {"refused", "harmless"}
