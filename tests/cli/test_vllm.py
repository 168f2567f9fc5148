"""vLLM answers what mmspec answers, plainly and with an exported head drafting."""

import json
import os
import sys
from importlib.util import find_spec

import pytest

PYTHON = os.environ.get("MMSPEC_VLLM") or (sys.executable if find_spec("vllm") else None)


@pytest.mark.slow
@pytest.mark.skipif(PYTHON is None, reason="vLLM is not installed: MMSPEC_VLLM names its Python")
def test_vllm_answers_and_keeps_drafts_as_mmspec_does(run, tmp_path, monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    out = tmp_path / "peers.json"
    pair = "--model mini --draft mini-eagle3 --drafting eagle3 --gamma 3 --device cpu"
    few = "--count 20 --repeats 1 --max-new-tokens 40"
    peers = ["--peers", "torch,vllm", "--vllm", PYTHON, "--out", out]
    assert run("bench", "peers", *pair.split(), *few.split(), *peers).status == 0
    figures = [each["figures"]["images"] for each in json.loads(out.read_text())["peers"]]
    _, drafted, plain, theirs = figures
    assert [each["identical"] for each in figures] == [20] * 4
    assert plain["tokens_per_round"] == 1
    assert theirs["tokens_per_round"] == pytest.approx(drafted["tokens_per_round"], rel=0.05)
    assert drafted["tokens_per_round"] > 2
