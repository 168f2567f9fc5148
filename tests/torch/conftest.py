"""A target and a draft on PyTorch, and one prompt as three branches see it."""

from functools import cache

import pytest

from mmspec_torch.backend import TorchBackend
from mmspec_torch.graphs.replays import StaticCache
from mmspec_torch.sequence.replayed import ReplayedSequences
from support import sequence_helpers as helpers
from support.replayed import Recording


@pytest.fixture(scope="module")
def pair(request, pair_paths):
    """A target and a draft; a test's parameter may name the type of their weights."""
    word = getattr(request, "param", "none")
    return [TorchBackend().load(path, device="cpu", quantize=word) for path in pair_paths]


@pytest.fixture(scope="module")
def views(pair):
    return helpers.views_of(pair[0])


@pytest.fixture
def capture(monkeypatch):
    """A capture, with little room in caches, so that every sequence outgrows it."""
    monkeypatch.setattr(StaticCache, "step", 64)
    return Recording()


@pytest.fixture
def switch(monkeypatch, capture):
    """Lets models run in the static form."""

    def on(models, capture=capture):
        for model in models:
            monkeypatch.setattr(model, "sequences", ReplayedSequences(model.language, capture))

    return on


@pytest.fixture(scope="session")
def answered(tmp_path_factory):
    """Function that returns conversations about pictures of many shapes, and a family's answers."""
    from support.teacher_data import answered_by  # training is imported only where it is tested

    def by(family):
        return answered_by(family, tmp_path_factory.mktemp(family), tied=family != "llava")

    return cache(by)


@pytest.fixture(scope="session")
def data(answered):
    return answered("llava")


@pytest.fixture(scope="session")
def teacher(data):
    return data.teacher


@pytest.fixture(scope="session", params=["llava", "qwen3", "qwen2_5_vl", "qwen3_vl"])
def family_data(request, answered):
    """What a teacher of each family answered."""
    return answered(request.param)
