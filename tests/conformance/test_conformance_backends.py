"""Nothing of this suite is left out in silence."""

import json
import tomllib
from pathlib import Path

from conformance_cases import PICTURES, small

from mmspec.bench.synthetic.floor import copy_bandwidth
from mmspec.registry import BACKENDS, load_backend, registered

ROOT = Path(__file__).parent.parent.parent


def test_every_backend_of_the_project_is_declared_where_it_is_installed():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert set(project["entry-points"][BACKENDS]) == {"mlx", "torch"} <= set(registered(BACKENDS))


def test_a_backend_knows_its_name_and_describes_itself(backend):
    loaded = load_backend(backend)
    assert loaded.name == backend
    assert json.loads(json.dumps(loaded.describe()))


def test_an_answers_peak_memory_is_counted(engine):
    answer = engine.chat(small(engine)).reply("What is this?", PICTURES[:1])
    assert answer.statistics.peak_memory_bytes > 10_000


def test_copies_can_be_timed(engine):
    assert copy_bandwidth(engine) > 1e8
