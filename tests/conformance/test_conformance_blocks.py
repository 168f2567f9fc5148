"""Block drafters compute what the model classes of speculators and of mlx-vlm compute."""

import json
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from test_conformance_eagle3 import array

from mmspec.chat.plugins import load_backend
from mmspec.checkpoints.head_export import export_head
from mmspec.decoding.sampling import GREEDY
from mmspec.drafters.heads.packing import Outline
from support import block_oracle
from support.factory_blocks import VOCABULARY, WIDTH, speculators_block, z_lab
from support.factory_heads import tiny_head

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")  # torch.jit, in speculators
VALUES = json.loads((Path(__file__).parents[1] / "support/block_values.json").read_text())
MAPPED = np.linspace(2, VOCABULARY - 1, 100).astype(int)


class Given:
    """Stands in for a target whose states and embeddings are random numbers."""

    def __init__(self, backend, layers):
        self._backend = backend
        sequence = block_oracle.random_sequence(layers, WIDTH, VOCABULARY)
        self._tokens, self._captured = sequence
        self._table, matrix = block_oracle.random_matrices(WIDTH, VOCABULARY)
        self._matrix = array(backend, matrix)

    def hidden_states(self, layers):
        return self

    def captured(self, start, stop):
        return array(self._backend, self._captured[start:stop])

    def embeddings(self, start, stop):
        return array(self._backend, self._table[self.ids(start, stop)])

    def ids(self, start, stop):
        return self._tokens[start:stop].tolist()

    def embed(self, ids):
        return array(self._backend, self._table[np.array(ids.tolist())])

    def project(self, states):
        return states @ self._matrix.T


@pytest.fixture(scope="module")
def target(backend, pair_paths):
    return load_backend(backend).load(pair_paths[0])


def block(backend, target, directory, columns):
    """A block after `columns` columns of context and one token: expander, tokens, modules."""
    head = load_backend(backend).load_head(directory, target)
    given = Given(backend, len(head.config.block.captured))
    forwards = head.open_drafter(given, GREEDY)._forwards
    outline = Outline().grown(columns + 1)
    for start, stop in ((0, columns // 2), (columns // 2, columns - 1)):
        forwards.follow(outline, start, stop)
    with forwards._framework.inference():
        expander = forwards._expander(outline, columns - 1, head.config.slots)
    return expander, given.ids(columns, columns + head.config.slots), forwards._parts


def logits(backend, target, directory, columns):
    """The drafter's logits [K, V] after `columns` columns of context and one token."""
    expander, tokens, modules = block(backend, target, directory, columns)
    with modules.framework.inference():
        rows = [expander.root()]
        for token in tokens[1:]:
            rows.append(expander.expand(array(backend, np.array([token])), None))
    return np.array([row.tolist()[0] for row in rows])


def drafted(rows):
    """The logits of the tokens that the head can draft; all others must be impossible."""
    if np.isfinite(rows).all():
        return rows
    assert np.isneginf(np.delete(rows, MAPPED, axis=1)).all()
    return rows[:, MAPPED]


@pytest.mark.parametrize("name", block_oracle.VARIANTS)
def test_logits_are_those_that_the_package_gave(backend, target, tmp_path, name):
    kind, given = block_oracle.VARIANTS[name]
    directory = speculators_block(tmp_path / "head", kind, seed=4, **given)
    rows = drafted(logits(backend, target, directory, block_oracle.COLUMNS))
    np.testing.assert_allclose(rows[[0, -1]], VALUES[name]["logits"], atol=2e-4)


@pytest.mark.parametrize("name", ["dspark", "gated", "rnn", "rnn mapped", "masks alone"])
def test_confidence_is_what_the_package_gave(backend, target, tmp_path, name):
    kind, given = block_oracle.VARIANTS[name]
    directory = speculators_block(tmp_path / "head", kind, seed=4, **given)
    expander, tokens, modules = block(backend, target, directory, block_oracle.COLUMNS)
    framework = modules.framework
    with framework.inference():
        read = expander._features
        if modules.options.confidence_head_with_markov:
            ids = array(backend, np.array(tokens))
            read = framework.concat([read, framework.pick(modules.markov.embedding, ids)], -1)
        odds = np.array(modules.confidence(read).tolist())[:, 0]
    np.testing.assert_allclose(1 / (1 + np.exp(-odds)), VALUES[name]["confidence"], atol=1e-4)


@pytest.mark.skipif(find_spec("speculators") is None, reason="speculators is not installed")
@pytest.mark.parametrize("name", block_oracle.VARIANTS)
def test_logits_are_those_of_the_installed_package(backend, target, tmp_path, name):
    kind, given = block_oracle.VARIANTS[name]
    directory = speculators_block(tmp_path / "head", kind, seed=1, **given)
    for columns in range(2, block_oracle.COLUMNS + 1):
        rows = drafted(logits(backend, target, directory, columns))
        expected, _ = block_oracle.rows(directory, columns)
        np.testing.assert_allclose(rows, expected, atol=2e-4)


@pytest.mark.skipif(find_spec("speculators") is None, reason="speculators is not installed")
@pytest.mark.parametrize("kind", ["dflash", "dspark"])
def test_the_installed_package_computes_an_exported_drafter(
    backend, target, pair_paths, tmp_path, kind
):
    head = tiny_head(tmp_path / "head", kind, seed=4)
    export_head(head, pair_paths[0], "speculators", tmp_path / "out", str(pair_paths[0]))
    expected, _ = block_oracle.rows(tmp_path / "out")
    rows = logits(backend, target, head, block_oracle.COLUMNS)
    np.testing.assert_allclose(rows, expected, atol=2e-4)


ODD = [
    {},
    {"num_hidden_layers": 3, "num_key_value_heads": 1, "head_dim": 22, "block_size": 3},
    {"nested": {"causal": True}},
    {"nested": {"target_layer_ids": [1]}, "rms_norm_eps": 1e-3, "rope_theta": 5e5},
]


@pytest.mark.skipif(find_spec("mlx_vlm") is None, reason="mlx-vlm is not installed")
@pytest.mark.parametrize("given", ODD)
@pytest.mark.parametrize("kind", ["dflash", "dspark"])
def test_logits_are_those_of_mlx_vlm(backend, target, tmp_path, kind, given):
    """Three seeds; in two rounds, of which the second continues the first's cache."""
    nested = given.get("nested", {})
    if kind == "dspark":
        nested = nested | {"projector_type": "dspark", "markov_rank": 8}
    for seed in range(3):
        directory = z_lab(tmp_path / str(seed), seed=seed, **(given | {"nested": nested}))
        rows = logits(backend, target, directory, block_oracle.COLUMNS)
        np.testing.assert_allclose(rows, block_oracle.mlx_vlm_rows(directory, kind), atol=2e-4)
