"""A target and a draft on PyTorch, and one prompt as three branches see it."""

import pytest
import torch_oracle as oracle

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
