"""EAGLE-3 heads and block drafters compute what speculators and transformers compute."""

import json
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

from mmspec.chat.plugins import load_backend
from mmspec.decoding.sampling import GREEDY
from mmspec.drafters.heads.packing import Outline
from support import speculators_oracle as oracle
from support.factory_heads import VOCABULARY
from support.factory_published import z_lab
from support.speculators_oracle import COLUMNS

VALUES = json.loads(Path(oracle.__file__).with_name("speculators_values.json").read_text())
MAPPED = np.linspace(2, VOCABULARY - 1, 100).astype(int)


def array(backend, values):
    """Numbers as the backend's array."""
    if backend == "torch":
        import torch

        return torch.tensor(values)
    import mlx.core as mx

    return mx.array(values)


class Given:
    """Stands in for a target whose states and embeddings are given."""

    def __init__(self, backend, tokens, captured, table, matrix=None):
        self._backend, self._tokens, self._captured, self._table = backend, tokens, captured, table
        self._matrix = matrix

    def hidden_states(self, layers):
        return self

    def layer_outputs(self, start, stop):
        return array(self._backend, self._captured[start:stop])

    def embeddings(self, start, stop):
        return array(self._backend, self._table[self._tokens[start:stop]])

    def ids(self, start, stop):
        return self._tokens[start:stop].tolist()

    def embed(self, ids):
        return array(self._backend, self._table[np.array(ids.tolist())])

    def project(self, states):
        return states @ self._matrix.T


@pytest.fixture(scope="module")
def target(backend, pair_paths):
    return load_backend(backend).load(pair_paths[0])


def expanded(backend, target, directory):
    """An expander of a draft after COLUMNS columns, the tokens from there, the head's modules."""
    head = load_backend(backend).load_head(directory, target)
    block, (own, matrix) = head.config.block, oracle.random_matrices()
    stored = load_file(directory / "model.safetensors")
    table = own if block else stored["embed_tokens.weight"]
    layers = len(block.captured_layers) if block else head.config.eagle3.count
    given = Given(backend, *oracle.random_sequence(layers), table, array(backend, matrix))
    forwards = head.open_drafter(given, GREEDY)._forwards
    end, count = (COLUMNS - 1, head.config.slots) if block else (COLUMNS - 2, oracle.STEPS)
    outline, half = Outline(apart=not block).with_text(COLUMNS + 1), end // 2
    for start, stop in ((0, half), (half, end)):
        forwards.follow(outline, start, stop)
    with forwards._framework.inference():
        expander = forwards._expander(outline, end, count)
    return expander, given.ids(COLUMNS, COLUMNS + count), forwards


def rows(backend, target, directory):
    """The head's logits [K, V] after COLUMNS columns and after each of the tokens from there."""
    expander, tokens, forwards = expanded(backend, target, directory)
    with forwards._framework.inference():
        found = [expander.root()]
        found += [expander.expand(array(backend, np.array([id])), None) for id in tokens[1:]]
    return np.array([row.tolist()[0] for row in found])


def drafted(logits):
    """The logits of the tokens that the head can draft; all others must be impossible."""
    if np.isfinite(logits).all():
        return logits
    assert np.isneginf(np.delete(logits, MAPPED, axis=1)).all()
    return logits[:, MAPPED]


@pytest.mark.parametrize("name", oracle.VARIANTS)
def test_logits_are_those_that_the_package_gave(backend, target, tmp_path, name):
    """And the confidence."""
    directory, values = oracle.written(name, tmp_path / "head"), VALUES[name]
    found = drafted(rows(backend, target, directory))
    np.testing.assert_allclose(found[[0, -1]], values["logits"], atol=2e-4)
    if values["confidence"] and name != "no markov":
        sure = confidence(backend, target, directory)
        np.testing.assert_allclose(sure, values["confidence"], atol=1e-4)


def confidence(backend, target, directory):
    """The probabilities with which a block's own tokens are accepted."""
    expander, tokens, forwards = expanded(backend, target, directory)
    with forwards._framework.inference():
        [sure] = expander.confidence(array(backend, np.array([*tokens[1:], 0])))
    return sure.tolist()


SIZES = [
    {},
    {"num_hidden_layers": 3, "num_key_value_heads": 1, "head_dim": 22, "block_size": 3},
    {"nested": {"target_layer_ids": [1]}, "rms_norm_eps": 1e-3, "rope_theta": 5e5},
    oracle.SLIDING | {"sliding_window": 5, "nested": {"causal": False}},
]


@pytest.mark.parametrize("given", SIZES)
def test_logits_are_those_of_transformers(backend, target, tmp_path, given):
    """Three seeds; in two rounds, of which the second continues the first's cache."""
    for seed in range(3):
        directory = z_lab(tmp_path / str(seed), seed=seed, **given)
        expected = oracle.transformers_rows(directory)
        np.testing.assert_allclose(rows(backend, target, directory), expected, atol=2e-4)
