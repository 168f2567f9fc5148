"""`mmspec bench peers` with real processes."""

import json

import pytest


@pytest.fixture
def tiny(pair_paths, monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    target, draft = map(str, pair_paths)
    few = "--count 1 --repeats 1 --max-new-tokens 8 --threads 1 --device cpu"
    return ["bench", "peers", "--model", target, "--draft", draft, *few.split()]


def test_processes_are_compared_and_a_missing_one_says_so(run, tiny, tmp_path):
    out = tmp_path / "peers.json"
    result = run(*tiny, "--peers", "mlx,mlx-vlm,vllm", "--out", out, "--plain")
    assert result.status == 0
    assert "mlx_vlm is not installed for" in result.out
    assert "vllm is not installed for" in result.out
    plain, drafted, *missing = json.loads(out.read_text())["peers"]
    for each in (plain, drafted):
        assert each["figures"]["images"]["identical"] == 1
        assert each["start_seconds"] > each["load_seconds"] > 0
        assert each["peak_memory_bytes"] > 2**20
        assert each["described"]["dtype"] == "float32"
    assert drafted["figures"]["text"]["tokens_per_round"] >= 1
    assert all(each["figures"] == {} for each in missing)
    assert run(*tiny, "--peers", "vllm").status == 1


@pytest.mark.slow
def test_every_peer_that_is_installed_gives_the_same_tokens(run, tiny, tmp_path):
    out = tmp_path / "peers.json"
    assert run(*tiny, "--peers", "torch,mlx,transformers,mlx-lm", "--out", out).status == 0
    for each in json.loads(out.read_text())["peers"]:
        assert all(found["identical"] == found["answers"] for found in each["figures"].values())
        assert set(each["figures"]) >= {"text"}
