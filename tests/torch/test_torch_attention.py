"""Attention of heads that share keys, in the layout that CUDA's kernels need."""

import pytest
import torch
import torch.nn.functional as F

from mmspec_torch.network.attention import heads_as_rows


@pytest.mark.parametrize("shape", [(1, 40), (5, 40), (2, 1, 1, 40), (2, 1, 5, 40)])
def test_heads_that_share_keys_may_be_rows_instead(shape):
    queries, keys, mask = torch.randn(2, 8, 5, 16), torch.randn(2, 2, 40, 16), torch.randn(shape)
    expected = F.scaled_dot_product_attention(queries, keys, keys, mask, enable_gqa=True)
    rows, shades = heads_as_rows(queries, 2, mask)
    found = F.scaled_dot_product_attention(rows, keys, keys, shades).reshape(expected.shape)
    torch.testing.assert_close(found, expected)
