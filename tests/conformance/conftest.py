"""Every backend that an entry point declares, each with the same tiny pair.

A declared backend whose framework is not installed fails the suite, unless MMSPEC_ALLOW_MISSING
names it (several with commas between); it is then skipped, and the report says so.
"""

import os
from functools import cache

import pytest

from mmspec.chat.engine import Engine, load
from mmspec.chat.plugins import installed_backends
from mmspec.exactness import probe
from mmspec.ground.entry_points import BACKENDS, plugins_of
from support.factory_fit import fit_head
from support.factory_heads import tiny_head
from support.factory_qwen import DRAFTS, QWENS, tiny_qwen

pytest.register_assert_rewrite("support.conformance_cases", "support.exactness_cases")

DECLARED = sorted(plugins_of(BACKENDS))
ALLOWED = {name for name in os.environ.get("MMSPEC_ALLOW_MISSING", "").split(",") if name}


def usable(name: str) -> str:
    """The name itself; skips or fails where the backend is not there."""
    if name not in installed_backends():
        if name in ALLOWED:
            pytest.skip(f"backend {name} is missing, as MMSPEC_ALLOW_MISSING allows")
        pytest.fail(f"backend {name} is declared and missing; MMSPEC_ALLOW_MISSING={name} skips it")
    return name


@pytest.fixture
def near(monkeypatch):
    """Probe few rows of the first blocks: the probe has tests of its own."""
    monkeypatch.setattr(probe, "POSITIONS", 150)
    few = tuple(rows for rows in probe.CANDIDATES if rows.most < 64)
    monkeypatch.setattr(probe, "CANDIDATES", few)


@pytest.fixture(scope="session", params=DECLARED)
def backend(request) -> str:
    """The name of each backend in turn."""
    return usable(request.param)


@pytest.fixture(scope="session")
def backends() -> list[str]:
    """The names of all backends that are there, to be compared with one another."""
    names = [name for name in DECLARED if name in installed_backends() or name not in ALLOWED]
    if len(names) < 2:
        pytest.skip(f"only {names} to compare: MMSPEC_ALLOW_MISSING allows the rest to be missing")
    return names


@pytest.fixture(scope="session")
def engine(backend, pair_paths) -> Engine:
    """The tiny pair on each backend: a draft that agrees with about half of the target's tokens."""
    return load(*pair_paths, backend=backend)


@pytest.fixture(scope="session")
def views(engine):
    """What the draft sees of a chunk, of an image with a caption of three tokens."""
    return engine.draft.views(lambda picture: [30, 31, 32 + int(picture.name[-1])])


@pytest.fixture(scope="session")
def twin(backend, pair_paths) -> Engine:
    """The target as its own draft."""
    return load(pair_paths[0], pair_paths[0], backend=backend)


@pytest.fixture(scope="session")
def head_paths(checkpoints, pair_paths):
    """A head of every variant, fitted to the target of the tiny pair."""
    from support.conformance_cases import HEADS  # once its assertions are rewritten

    paths = {}
    for name, (kind, given) in HEADS.items():
        random = tiny_head(checkpoints / f"head {name}", kind, seed=2, **given)
        paths[name] = fit_head(random, pair_paths[0])
    return paths


@pytest.fixture(scope="session")
def headed(pair_paths, head_paths):
    """Function that returns the target's engine of a backend and a head's variant, loaded once."""
    return cache(lambda backend, name: load(pair_paths[0], head_paths[name], backend=backend))


@pytest.fixture(scope="module", params=QWENS)
def kind(request) -> str:
    return request.param


@pytest.fixture(scope="session")
def qwen_pairs(checkpoints):
    """Function that returns a target of other sizes and a draft of its family, written once."""

    @cache
    def written(kind, name, **sizes):
        folder = checkpoints / f"{kind} {name}"
        target = tiny_qwen(kind, folder / "target", **sizes)
        small = {"hidden_size": 32, "heads": 2, "layers": 2, "seed": 9}
        return target, tiny_qwen(DRAFTS[kind], folder / "draft", **small)

    return written


@pytest.fixture(scope="module")
def qwen_paths(qwen_pairs, kind):
    return qwen_pairs(kind, "wide", **QWENS[kind])


@pytest.fixture(scope="module")
def exact_qwen_paths(qwen_pairs, kind):
    """With as many key heads as heads: MLX's float32 products of groups are not exact on a CPU."""
    return qwen_pairs(kind, "exact", key_value_heads=4, seed=8)


@pytest.fixture(scope="module")
def qwen(backend, qwen_paths) -> Engine:
    return load(*qwen_paths, backend=backend)


@pytest.fixture(scope="module")
def oracle(qwen_paths):
    """Transformers' model of the target."""
    from support.qwen_oracle import Oracle

    return Oracle(qwen_paths[0])
