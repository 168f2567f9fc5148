"""A target and a draft on PyTorch, and one prompt as three branches see it."""

from functools import cache

import pytest

from mmspec_torch.backend import TorchBackend
from support import factory
from support import sequence_helpers as helpers


@pytest.fixture(scope="module")
def pair(pair_paths):
    return [TorchBackend().load(path, device="cpu") for path in pair_paths]


@pytest.fixture(scope="module")
def views(pair):
    return helpers.views_of(pair[0])


@pytest.fixture(scope="session")
def teacher(tmp_path_factory):
    from mmspec_train.data.teacher import Teacher

    return Teacher(factory.tiny_llava(tmp_path_factory.mktemp("teacher") / "llava"), "cpu")


@pytest.fixture(scope="session")
def data(teacher, tmp_path_factory):
    """Conversations that the teacher answered; training is imported only where it is tested."""
    from support.teacher_data import prepare, teacher_data

    answered = teacher_data(teacher, tmp_path_factory.mktemp("answers"))
    prepare(answered)
    return answered


@pytest.fixture(scope="session")
def answered(tmp_path_factory):
    """Function that returns the same of a family's teacher, whose pictures have many shapes."""
    from support.teacher_data import answered_by

    return cache(lambda name: answered_by(name, tmp_path_factory.mktemp(name), tied=True))


@pytest.fixture(scope="session", params=["llava", "qwen3", "qwen2_5_vl", "qwen3_vl"])
def family_data(request, answered):
    """What a teacher of each family answered."""
    return answered(request.param)
