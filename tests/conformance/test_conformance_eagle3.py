"""EAGLE-3 heads compute what the model class of the speculators package computes."""

import json
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

from mmspec.chat.plugins import load_backend
from mmspec.checkpoints.head_export import LAYOUTS, export_head
from mmspec.decoding.sampling import GREEDY
from mmspec.drafters.heads.packing import Outline
from support import speculators_oracle
from support.factory_heads import VOCABULARY, WIDTH, speculators, tiny_head

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")  # torch.jit, in speculators
VALUES = json.loads((Path(__file__).parents[1] / "support/speculators_values.json").read_text())
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

    def __init__(self, backend, sequence, table):
        self._backend, self._sequence, self._table = backend, sequence, table

    def hidden_states(self, layers):
        return self

    def captured(self, start, stop):
        return array(self._backend, self._sequence.captured[start:stop])

    def embeddings(self, start, stop):
        return array(self._backend, self._table[self._sequence.tokens[start:stop]])

    def embed(self, ids):
        return array(self._backend, self._table[np.array(ids.tolist())])


@pytest.fixture(scope="module")
def target(backend, pair_paths):
    return load_backend(backend).load(pair_paths[0])


def logits(backend, target, directory, columns, table=None):
    """The head's logits [s, V] at the last of `columns` slots and after the tokens that follow.

    table: embeddings [V, H] of all tokens; None: the file's own.
    """
    head = load_backend(backend).load_head(directory, target)
    layers = head.config.eagle3.count
    sequence = speculators_oracle.random_sequence(layers, WIDTH, VOCABULARY)
    if table is None:
        table = load_file(directory / "model.safetensors")["embed_tokens.weight"]
    forwards = head.open_drafter(Given(backend, sequence, table), GREEDY)._forwards
    outline = Outline(apart=True).grown(columns + 1)
    forwards.follow(outline, 0, columns - 2)
    with forwards._framework.inference():
        expander = forwards._expander(outline, columns - 2, 3)
        rows = [expander.root()]
        for token in sequence.tokens[columns + 1 : columns + speculators_oracle.STEPS]:
            rows.append(expander.expand(array(backend, np.array([token])), None))
    return np.array([row.tolist()[0] for row in rows])


def drafted(rows):
    """The logits of the tokens that the head can draft; all others must be impossible."""
    if np.isfinite(rows).all():
        return rows
    rest = np.delete(rows, MAPPED, axis=1)
    assert np.isneginf(rest).all()
    return rows[:, MAPPED]


@pytest.mark.parametrize("name", speculators_oracle.VARIANTS)
def test_logits_are_those_that_the_package_gave(backend, target, tmp_path, name):
    given = speculators_oracle.VARIANTS[name]
    directory = speculators(tmp_path / "head", seed=4, **given)
    rows = logits(backend, target, directory, speculators_oracle.COLUMNS)
    np.testing.assert_allclose(drafted(rows), VALUES[name], atol=2e-4)


EXPORTED = [{}, {"draft_vocab_size": 100, "fc_norm": True, "norm_output": True}]


@pytest.mark.parametrize("given", EXPORTED)
def test_an_exported_head_drafts_the_same(backend, target, pair_paths, tmp_path, given):
    head = tiny_head(tmp_path / "head", "eagle3", seed=4, **given)
    embedding = load_file(pair_paths[0] / "model.safetensors")
    table = next(tensor for name, tensor in embedding.items() if "embed_tokens" in name)
    expected = logits(backend, target, head, 9, table)
    for layout in LAYOUTS:
        out = tmp_path / layout
        export_head(head, pair_paths[0], layout, out, str(pair_paths[0]))
        np.testing.assert_array_equal(logits(backend, target, out, 9, table), expected)
    if find_spec("speculators"):
        sequence = speculators_oracle.random_sequence(3, WIDTH, VOCABULARY)
        told = speculators_oracle.verified_logits(tmp_path / "speculators", sequence)
        np.testing.assert_allclose(drafted(expected), told[:, 8], atol=2e-4)


@pytest.mark.skipif(find_spec("speculators") is None, reason="speculators is not installed")
@pytest.mark.parametrize("name", speculators_oracle.VARIANTS)
def test_logits_are_those_of_the_installed_package(backend, target, tmp_path, name):
    given = speculators_oracle.VARIANTS[name]
    for seed in range(3):
        directory = speculators(tmp_path / f"head {seed}", seed=seed, **given)
        layers = len(given.get("eagle_aux_hidden_state_layer_ids", [0, 1, 2]))
        sequence = speculators_oracle.random_sequence(layers, WIDTH, VOCABULARY)
        expected = speculators_oracle.logits(directory, sequence)
        for columns in range(3, speculators_oracle.COLUMNS + 1):
            rows = drafted(logits(backend, target, directory, columns))
            np.testing.assert_allclose(rows, expected[:, columns - 1], atol=2e-4)
