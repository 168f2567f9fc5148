"""vLLM answers what mmspec answers, plainly and with an exported head drafting."""

import os
import sys
from importlib.util import find_spec

import pytest
from vllm_check import compare

from mmspec.checkpoints.cards import load_cards, present

HEAD = load_cards().get("mini-eagle3")
PYTHON = os.environ.get("MMSPEC_VLLM") or (sys.executable if find_spec("vllm") else None)


@pytest.mark.slow
@pytest.mark.skipif(PYTHON is None, reason="vLLM is not installed: MMSPEC_VLLM names its Python")
@pytest.mark.skipif(
    HEAD is None or present(HEAD, "torch") is None,
    reason="the weights of mini-eagle3 are not in the tree",
)
def test_vllm_answers_and_keeps_drafts_as_mmspec_does(monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    plain, drafted = compare(PYTHON, "mini-eagle3", count=20, gamma=3)
    assert not plain.failed, list(plain.lines())
    assert not drafted.failed, list(drafted.lines())
    assert plain.accepted == plain.accepted_by_vllm == 0
    assert drafted.accepted > 1
