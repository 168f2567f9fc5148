"""A target and a draft on PyTorch, and one prompt as three branches see it."""

import pytest
import torch_oracle as oracle

import factory
from mmspec_torch.backend import TorchBackend


@pytest.fixture(scope="module")
def pair(pair_paths):
    return [TorchBackend().load(path, device="cpu") for path in pair_paths]


@pytest.fixture(scope="module")
def views(pair):
    """One prompt of two images as M, T and P see it."""
    images = [pair[0].encode(image) for image in oracle.pixels(32, 2)]
    whole = oracle.prompt(images)
    pooled = oracle.prompt([image.pooled(4) for image in images])
    return [whole, oracle.without_images(whole), pooled]


@pytest.fixture(scope="session")
def teacher(tmp_path_factory):
    from mmspec_torch.train.distill.teacher import Teacher

    return Teacher(factory.tiny_llava(tmp_path_factory.mktemp("teacher") / "llava"), "cpu")


@pytest.fixture(scope="session")
def supply(teacher, tmp_path_factory):
    """Conversations that the teacher answered; torch.train is loaded by those who ask for it."""
    from training_supply import prepared, supplied

    made = supplied(teacher, tmp_path_factory.mktemp("answers"))
    prepared(made)
    return made
