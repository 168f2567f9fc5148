"""Matrix layouts and norms of the torch backend, against PyTorch's own."""

import pytest
import torch
import torch.nn.functional as F

from mmspec_torch import norms, products
from mmspec_torch.products import Copied, Dense, Shared

SHAPES = [(96, 64), (768, 256), (1024, 128)]


@pytest.fixture
def rng():
    return torch.Generator().manual_seed(0)


@pytest.mark.parametrize(("outputs", "inputs"), SHAPES)
@pytest.mark.parametrize("rows", [1, 2, 4, 6, 40, 600])
def test_every_layout_multiplies_as_linear_does(rng, outputs, inputs, rows):
    weight, x = (torch.randn(n, inputs, generator=rng) for n in (outputs, rows))
    other = torch.randn(rows, outputs, generator=rng)
    expected = F.linear(x, weight)
    for each in (Dense(weight.T), Shared(weight.T), Copied(weight)):
        torch.testing.assert_close(each(x), expected, atol=1e-4, rtol=1e-5)
        summed = each.added(x, other.clone())
        torch.testing.assert_close(summed, expected + other, atol=1e-4, rtol=1e-5)


def test_rows_are_packed_once_that_pays(rng):
    weight = torch.randn(768, 256, generator=rng)
    small = Copied(weight[:64, :64].contiguous())
    assert Copied(weight).vectors == 2
    assert small.vectors == 16


def test_few_rows_may_come_as_vectors(rng):
    weight, bias = torch.randn(768, 128, generator=rng), torch.randn(768, generator=rng)
    for each, added in ((Copied(weight), 0), (products.Biased(Copied(weight), bias), bias)):
        for rows in range(2, each.vectors + 1):
            x = torch.randn(rows, 128, generator=rng)
            to = torch.randn(rows, 768, generator=rng)
            expected = F.linear(x, weight) + added
            given = each(x.unsqueeze(1))
            torch.testing.assert_close(given.squeeze(1), expected, atol=1e-4, rtol=1e-5)
            given = each.added(x.unsqueeze(1), to.clone().unsqueeze(1))
            torch.testing.assert_close(given.squeeze(1), expected + to, atol=1e-4, rtol=1e-5)


def test_a_matrix_is_held_twice_only_while_it_is_small():
    small, large = (torch.empty(n, 1024) for n in (4096, 4097))
    assert isinstance(products.product(small), Copied)
    assert isinstance(products.product(large), Shared)


@pytest.mark.parametrize(("threads", "blocks"), [(1, 1), (2, 2), (5, 4), (7, 6)])
def test_outputs_are_shared_by_as_many_threads_as_divide_them(rng, threads, blocks):
    weight, x = torch.randn(96, 64, generator=rng), torch.randn(1, 64, generator=rng)
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        each = Shared(weight.T)
    finally:
        torch.set_num_threads(before)
    assert each._blocks.shape == (blocks, 64, 96 // blocks)
    assert each._blocks.data_ptr() == weight.data_ptr()
    expected, other = F.linear(x, weight), torch.randn(1, 96, generator=rng)
    torch.testing.assert_close(each(x), expected, atol=1e-4, rtol=1e-5)
    torch.testing.assert_close(each.added(x, other.clone()), expected + other, atol=1e-4, rtol=1e-5)


@pytest.mark.parametrize("kind", [torch.bfloat16, torch.float16])
def test_half_types_keep_one_layout_and_the_exact_norm(kind):
    weight = torch.ones(64, 64, dtype=kind)
    assert isinstance(products.product(weight), Dense)
    assert isinstance(norms.norm(weight[0], 1e-5), norms.RootMeanSquare)


@pytest.mark.parametrize("size", [1e-6, 1.0, 1e6])
def test_the_short_norm_is_the_long_one(rng, size):
    x, weight = size * torch.randn(5, 256, generator=rng), torch.rand(256, generator=rng)
    expected = F.rms_norm(x, (256,), weight, 1e-5)
    torch.testing.assert_close(norms.norm(weight, 1e-5)(x), expected, atol=2e-6, rtol=2e-6)
    assert not torch.equal(expected, x)
