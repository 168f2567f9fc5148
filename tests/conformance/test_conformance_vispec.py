"""ViSpec heads of the published layout draft as numpy computes them, over LLaVA and Qwen2.5-VL."""

import json

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from test_conformance_mrope_heads import ASKED, DRAWN, check_lossless, opened, prompt
from test_conformance_mrope_heads import PICTURES as SHOWN

from mmspec.chat.engine import load
from mmspec.decoding.contract import Segment
from mmspec.decoding.draft import Plan
from mmspec.decoding.host_framework import keys, sampler
from mmspec.decoding.noise import NO_NOISE, Noise
from mmspec.decoding.tree import Tree
from support.conformance_cases import PICTURES
from support.factory_heads import published
from support.factory_qwen import IMAGE_ID, tiny_qwen2_5_vl
from support.heads_oracle import eagle2, paths
from support.mrope_oracle import read_columns
from support.qwen_oracle import Oracle
from support.transformers_oracle import recorded
from support.vispec_oracle import ViSpec


class QwenViSpec:
    """The head's distributions over one prompt of a Qwen2.5-VL."""

    def __init__(self, head, oracle, tokens, pictures):
        columns = read_columns(oracle, tokens, [each.image for each in pictures])
        text = oracle.model.model.language_model
        with torch.inference_mode():
            states = text.norm(columns["layers"][-1])[:-1].numpy()
        numbers = np.cumsum([token != IMAGE_ID for token in tokens])
        image = [
            int(at) if token == IMAGE_ID else -1 for at, token in zip(numbers, tokens, strict=True)
        ]
        tensors = {k: t.numpy() for k, t in load_file(head / "model.safetensors").items()}
        config = json.loads((head / "config.json").read_text())
        self._table, self._matrix = text.embed_tokens.weight, oracle.model.lm_head.weight
        self._head = ViSpec(config, tensors, columns["layers"][0].numpy(), states, image)

    def says(self, drafted):
        """Probabilities [V] of the token after the drafted ones."""
        with torch.inference_mode():
            feature = self._head.feature(self._table[drafted].numpy())
            return (self._matrix @ torch.tensor(feature).float()).softmax(-1)


@pytest.fixture(scope="module")
def qwen(backend, tmp_path_factory):
    """An engine with a head, the head's directory, and transformers' model of the target."""
    folder = tmp_path_factory.mktemp("vispec")
    path = tiny_qwen2_5_vl(folder / "target", seed=3)
    head = published(folder / "head", "qwen2_5_vl", views=2, qkv_bias=True, rope_theta=1e6)
    with load(str(path), str(head), backend=backend) as engine:
        yield engine, head, Oracle(path)


def normed(q):
    """Logits of probabilities, the largest 0."""
    return np.log(q) - np.log(q).max(-1, keepdims=True)


@pytest.mark.parametrize("pictures", SHOWN, ids=["one", "two", "none"])
def test_chains_and_trees_are_those_of_the_specification(qwen, pictures):
    """After a prompt, and after what follows it is replaced."""
    engine, head, oracle = qwen
    segment, tokens = prompt(engine, pictures)
    chain, tree = opened(engine, segment, DRAWN), opened(engine, segment, tree=Tree((), 3, 7))
    rows = recorded(chain[0])
    for _ in range(2):
        reference, noise = QwenViSpec(head, oracle, tokens, pictures), Noise(1, len(tokens))
        ids = chain[1].draft(Plan(3), noise).ids.tolist()
        told = np.array([row.tolist() for row in rows[-3:]])
        q = np.array([reference.says(ids[:place]).tolist() for place in range(3)])
        np.testing.assert_allclose(told - told.max(-1, keepdims=True), normed(q), atol=1e-3)
        assert ids == sampler(DRAWN).tokens(told, keys(noise, 3)).tolist()
        grown = eagle2(reference, width=3, nodes=7, depth=3)
        assert paths(tree[1].draft(Plan(3), NO_NOISE)) == grown
        for sequence in (*chain, *tree):
            sequence.rewind(len(tokens) - 1)
        later = Segment([[40, 41, 42, 43]])
        for target, drafter in (chain, tree):
            target.extend(later)
            drafter.extend([later])
        tokens = [*tokens[:-1], 40, 41, 42, 43]


def test_speculative_equals_plain_over_qwen(qwen):
    check_lossless(qwen[0], ASKED)


def test_speculative_equals_plain_over_llava(backend, pair_paths, tmp_path):
    """Pickled on PyTorch, which alone reads pickles."""
    head = published(tmp_path / "head", "llava", views=2, pickled=backend == "torch")
    with load(str(pair_paths[0]), str(head), backend=backend) as engine:
        assert engine.head.kind == "vispec"
        check_lossless(engine, [("Which shapes?", PICTURES[:2]), ("And this?", PICTURES[2:3])])
