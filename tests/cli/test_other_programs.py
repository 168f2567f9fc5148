"""mlx-vlm, in an environment of its own, gives the same tokens as mmspec."""

import json
import os

import pytest

from support.factory_qwen import as_on_the_hub, tiny_qwen

MLX_VLM = os.environ.get("MMSPEC_MLX_VLM")


SIZES = {
    "qwen3_vl": [{}, {"tied": True, "deepstack": (1,)}, {"key_value_heads": 4, "layers": 5}],
    "qwen2_5_vl": [{}, {"tied": True, "whole": (0, 2)}, {"key_value_heads": 4, "window": 24}],
    "qwen3_5": [
        {"hidden_size": 64, "key_dim": 32, "value_dim": 32},
        {"tied": True, "key_dim": 32, "value_dim": 32},
        {"key_value_heads": 4, "key_dim": 32, "value_dim": 32, "kinds": "dddaddda"},
    ],
}
CASES = [(kind, sizes, bits) for kind in SIZES for sizes in SIZES[kind] for bits in (4, 8)]


@pytest.mark.slow
@pytest.mark.skipif(MLX_VLM is None, reason="mlx-vlm: MMSPEC_MLX_VLM names its Python")
@pytest.mark.parametrize(("kind", "sizes", "bits"), CASES)
def test_mlx_vlm_reads_a_quantized_copy_and_says_the_same(run, tmp_path, kind, sizes, bits):
    source = as_on_the_hub(tiny_qwen(kind, tmp_path / "source", **sizes))
    copy, out = tmp_path / "copy", tmp_path / "peers.json"
    quantized = run("models", "quantize", source, copy, "--bits", bits, "--group-size", 32)
    assert quantized.status == 0, quantized
    few = "--draft none --peers mlx,mlx-vlm --count 6 --repeats 1 --max-new-tokens 24 --device cpu"
    assert run("bench", "peers", "--model", copy, *few.split(), "--mlx-vlm", MLX_VLM, "--out", out)
    theirs = json.loads(out.read_text())["peers"][-1]
    assert set(theirs["figures"]) == {"images", "text"}, theirs
    for found in theirs["figures"].values():
        assert found["identical"] == found["answers"] == 6
