"""Matrix layouts and shared keys against PyTorch's own; attention by blocks stays on its device."""

from functools import partial

import array_api_compat.torch as xp
import pytest
import torch
import torch.nn.functional as F

from mmspec.decoding.block_attention import BLOCK, attend, chain_places, tree_places
from mmspec.decoding.draft import DeviceDraft
from mmspec_torch.device import products
from mmspec_torch.device.products import Dense, LinearLayer, OneDnnMatrix
from mmspec_torch.network.attention import heads_as_rows


@pytest.fixture
def rng():
    return torch.Generator().manual_seed(0)


@pytest.mark.parametrize(("outputs", "inputs"), [(96, 64), (768, 256), (1024, 512)])
@pytest.mark.parametrize("rows", [1, 2, 4, 6, 40, 600])
def test_every_layout_multiplies_as_linear_does(rng, outputs, inputs, rows):
    weight, x = (torch.randn(n, inputs, generator=rng) for n in (outputs, rows))
    other, bias = (torch.randn(n, outputs, generator=rng) for n in (rows, 1))
    for each, added in (
        (Dense(weight.T), 0),
        (OneDnnMatrix(weight), 0),
        (LinearLayer(OneDnnMatrix(weight), bias[0]), bias),
    ):
        expected = F.linear(x, weight) + added
        torch.testing.assert_close(each(x), expected, atol=1e-4, rtol=1e-5)
        summed = each.add(x, other.clone())
        torch.testing.assert_close(summed, expected + other, atol=1e-4, rtol=1e-5)


@pytest.mark.skipif(
    not torch.ops.mkldnn._is_mkldnn_bf16_supported(), reason="oneDNN has no bfloat16 on this CPU"
)
@pytest.mark.parametrize("outputs", [512, 1024])
@pytest.mark.parametrize("rows", [1, 3, 4, 40])
def test_units_for_16_bits_add_in_float32_and_round_once(rng, monkeypatch, outputs, rows):
    monkeypatch.setattr(products, "relative_time", lambda _: 0.5)
    weight, x, to = (
        torch.randn(n, m, generator=rng).bfloat16()
        for n, m in ((outputs, 512), (rows, 512), (rows, outputs))
    )
    matrix = products.product(weight)
    assert isinstance(matrix, OneDnnMatrix)
    exact = F.linear(x.float(), weight.float())
    close = partial(torch.testing.assert_close, atol=1e-3, rtol=2**-7)
    close(matrix(x).float(), exact)
    close(matrix.add(x, to.clone()).float(), exact + to, atol=0.2)


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
    assert isinstance(matrix, products.WidenedMatrix)
    exact = F.linear(x.float(), weight.float())
    torch.testing.assert_close(matrix(x), exact.to(dtype), atol=0, rtol=torch.finfo(dtype).eps)
    summed = matrix.add(x, to.clone())
    assert summed.dtype == dtype
    torch.testing.assert_close(summed.float(), exact + to, atol=0.05, rtol=0.01)


META = torch.device("meta")


@pytest.mark.parametrize("is_tree", [False, True])
@pytest.mark.parametrize("multiple", [1, 4])
def test_every_array_is_where_the_queries_are(is_tree, multiple):
    count = partial(torch.arange, device=META)
    queries = torch.zeros(2, 3, 4, 8, device=META)
    keys, values = torch.zeros(2, 2, 3 * BLOCK, 8, device=META)
    if is_tree:
        draft = DeviceDraft(count(3), 3, parents=count(3) - 1)
        tree = draft.ancestry(xp)
        places = tree_places(xp, count, tree, BLOCK + 7, 3 * BLOCK, multiple, 1)
    else:
        places = chain_places(xp, count, count(4) + BLOCK, 3 * BLOCK, multiple)
    found = attend(xp, queries, keys, values, places)
    assert found.device.type == META.type
    assert found.shape == queries.shape


@pytest.mark.parametrize("shape", [(1, 40), (5, 40), (2, 1, 1, 40), (2, 1, 5, 40)])
def test_heads_that_share_keys_may_be_rows_instead(shape):
    queries, keys, mask = torch.randn(2, 8, 5, 16), torch.randn(2, 2, 40, 16), torch.randn(shape)
    expected = F.scaled_dot_product_attention(queries, keys, keys, mask, enable_gqa=True)
    rows, shades = heads_as_rows(queries, 2, mask)
    found = F.scaled_dot_product_attention(rows, keys, keys, shades).reshape(expected.shape)
    torch.testing.assert_close(found, expected)
