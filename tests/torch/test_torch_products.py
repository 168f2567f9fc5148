"""Matrix layouts of the torch backend, against PyTorch's own."""

import pytest
import torch
import torch.nn.functional as F

from mmspec_torch.device import products
from mmspec_torch.device.products import Biased, Dense, Packed


@pytest.fixture
def rng():
    return torch.Generator().manual_seed(0)


@pytest.mark.parametrize(("outputs", "inputs"), [(96, 64), (768, 256), (1024, 128)])
@pytest.mark.parametrize("rows", [1, 2, 4, 6, 40, 600])
def test_every_layout_multiplies_as_linear_does(rng, outputs, inputs, rows):
    weight, x = (torch.randn(n, inputs, generator=rng) for n in (outputs, rows))
    other, bias = (torch.randn(n, outputs, generator=rng) for n in (rows, 1))
    for each, added in (
        (Dense(weight.T), 0),
        (Packed(weight), 0),
        (Biased(Packed(weight), bias[0]), bias),
    ):
        expected = F.linear(x, weight) + added
        torch.testing.assert_close(each(x), expected, atol=1e-4, rtol=1e-5)
        summed = each.added(x, other.clone())
        torch.testing.assert_close(summed, expected + other, atol=1e-4, rtol=1e-5)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("rows", [1, 5, 6, 40])
def test_without_units_for_16_bits_the_product_is_float32s_once_rounded(
    rng, monkeypatch, dtype, rows
):
    monkeypatch.setattr(products, "relative_time", lambda _: 9.0)
    monkeypatch.setattr(products, "TILE", 100 * 64)
    weight, x, to = (
        torch.randn(n, m, generator=rng).to(dtype) for n, m in ((250, 64), (rows, 64), (rows, 250))
    )
    matrix = products.product(weight)
    assert isinstance(matrix, products.Widened)
    exact = F.linear(x.float(), weight.float())
    torch.testing.assert_close(matrix(x), exact.to(dtype), atol=0, rtol=torch.finfo(dtype).eps)
    summed = matrix.added(x, to.clone())
    assert summed.dtype == dtype
    torch.testing.assert_close(summed.float(), exact + to, atol=0.05, rtol=0.01)
