"""Nothing of this suite is left out in silence."""

import json
import tomllib
from pathlib import Path

import pytest

from mmspec.chat.plugins import BACKENDS, load_backend, registered
from mmspec.ground.threads import VARIABLES
from support.conformance_cases import PICTURES, small

ROOT = Path(__file__).parent.parent.parent


def test_every_backend_of_the_project_is_declared_where_it_is_installed():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert set(project["entry-points"][BACKENDS]) == {"mlx", "torch"} <= set(registered(BACKENDS))


def test_a_backend_knows_its_name_and_describes_itself(backend):
    loaded = load_backend(backend)
    assert loaded.name == backend
    assert json.loads(json.dumps(loaded.describe()))["devices"][-1] == "cpu"


def test_threads_are_those_asked_for_until_none_are_asked_for(backend, monkeypatch):
    monkeypatch.setattr("mmspec.ground.threads.cores", lambda: 3)
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    loaded = load_backend(backend)
    if backend == "mlx" and loaded.describe()["blas"] != "OpenBLAS":
        pytest.skip("MLX's BLAS here takes no number of threads")
    try:
        loaded.set_threads(3)
        assert threads_of(loaded) == 3
        loaded.set_threads(None)
        assert threads_of(loaded) == 2
    finally:
        loaded.set_threads(1)


def threads_of(backend):
    said = backend.describe()
    return said["blas_threads"] if backend.name == "mlx" else said["threads"]


def test_an_answers_peak_memory_is_counted(engine):
    answer = engine.chat(small(engine)).reply("What is this?", PICTURES[:1])
    assert answer.statistics.peak_memory_bytes > 10_000
