"""EAGLE-3 heads and block drafters compute what speculators, mlx-vlm and transformers compute."""

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
from support import block_oracle
from support import speculators_oracle as eagle_oracle
from support.factory_blocks import VOCABULARY, WIDTH, speculators_block, z_lab
from support.factory_heads import speculators, tiny_head

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")  # torch.jit, in speculators
SUPPORT = Path(__file__).parents[1] / "support"
EAGLE3_VALUES = json.loads((SUPPORT / "speculators_values.json").read_text())
BLOCK_VALUES = json.loads((SUPPORT / "block_values.json").read_text())
MAPPED = np.linspace(2, VOCABULARY - 1, 100).astype(int)
EAGLE3, BLOCKS = eagle_oracle.VARIANTS, block_oracle.VARIANTS
installed = pytest.mark.skipif(find_spec("speculators") is None, reason="speculators is missing")


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

    def captured(self, start, stop):
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


def rows_of(backend, expander, tokens):
    """The logits [s, V] of a drafter at its root and after each of `tokens`."""
    rows = [expander.root()]
    rows += [expander.expand(array(backend, np.array([token])), None) for token in tokens]
    return np.array([row.tolist()[0] for row in rows])


def eagle3(backend, target, directory, columns, table=None):
    """The head's logits [s, V] at the last of `columns` slots and after the tokens that follow.

    table: embeddings [V, H] of all tokens; None: the file's own.
    """
    head = load_backend(backend).load_head(directory, target)
    sequence = eagle_oracle.random_sequence(head.config.eagle3.count, WIDTH, VOCABULARY)
    if table is None:
        table = load_file(directory / "model.safetensors")["embed_tokens.weight"]
    given = Given(backend, *sequence, table)
    forwards = head.open_drafter(given, GREEDY)._forwards
    outline = Outline(apart=True).grown(columns + 1)
    forwards.follow(outline, 0, columns - 2)
    with forwards._framework.inference():
        expander = forwards._expander(outline, columns - 2, 3)
        following = given.ids(columns + 1, columns + eagle_oracle.STEPS)
        return rows_of(backend, expander, following)


def block(backend, target, directory, columns):
    """A block after `columns` columns of context and one token: expander, tokens, modules."""
    head = load_backend(backend).load_head(directory, target)
    table, matrix = block_oracle.random_matrices(WIDTH, VOCABULARY)
    layers = len(head.config.block.captured)
    sequence = block_oracle.random_sequence(layers, WIDTH, VOCABULARY)
    given = Given(backend, *sequence, table, array(backend, matrix))
    forwards = head.open_drafter(given, GREEDY)._forwards
    outline = Outline().grown(columns + 1)
    for start, stop in ((0, columns // 2), (columns // 2, columns - 1)):
        forwards.follow(outline, start, stop)
    with forwards._framework.inference():
        expander = forwards._expander(outline, columns - 1, head.config.slots)
    return expander, given.ids(columns, columns + head.config.slots), forwards._parts


def block_rows(backend, target, directory, columns=block_oracle.COLUMNS):
    """The drafter's logits [K, V] after `columns` columns of context and one token."""
    expander, tokens, modules = block(backend, target, directory, columns)
    with modules.framework.inference():
        return rows_of(backend, expander, tokens[1:])


def drafted(rows):
    """The logits of the tokens that the head can draft; all others must be impossible."""
    if np.isfinite(rows).all():
        return rows
    assert np.isneginf(np.delete(rows, MAPPED, axis=1)).all()
    return rows[:, MAPPED]


@pytest.mark.parametrize("name", EAGLE3)
def test_logits_are_those_that_the_package_gave(backend, target, tmp_path, name):
    directory = speculators(tmp_path / "head", seed=4, **EAGLE3[name])
    rows = eagle3(backend, target, directory, eagle_oracle.COLUMNS)
    np.testing.assert_allclose(drafted(rows), EAGLE3_VALUES[name], atol=2e-4)


@pytest.mark.parametrize("name", BLOCKS)
def test_logits_and_confidence_of_blocks_are_those_that_the_package_gave(
    backend, target, tmp_path, name
):
    kind, given = BLOCKS[name]
    directory = speculators_block(tmp_path / "head", kind, seed=4, **given)
    rows = drafted(block_rows(backend, target, directory))
    np.testing.assert_allclose(rows[[0, -1]], BLOCK_VALUES[name]["logits"], atol=2e-4)
    if name in ("dspark", "gated", "rnn", "rnn mapped", "masks alone"):
        said = confidence(backend, target, directory)
        np.testing.assert_allclose(said, BLOCK_VALUES[name]["confidence"], atol=1e-4)


def confidence(backend, target, directory):
    """The probabilities with which a block's own tokens are accepted."""
    expander, tokens, modules = block(backend, target, directory, block_oracle.COLUMNS)
    framework = modules.framework
    with framework.inference():
        read = expander._features
        if modules.options.confidence_head_with_markov:
            ids = array(backend, np.array(tokens))
            read = framework.concat([read, framework.pick(modules.markov.embedding, ids)], -1)
        return 1 / (1 + np.exp(-np.array(modules.confidence(read).tolist())[:, 0]))


EXPORTED = [{}, {"draft_vocab_size": 100, "fc_norm": True, "norm_output": True}]


@pytest.mark.parametrize("given", EXPORTED)
def test_an_exported_head_drafts_the_same(backend, target, pair_paths, tmp_path, given):
    head = tiny_head(tmp_path / "head", "eagle3", seed=4, **given)
    embedding = load_file(pair_paths[0] / "model.safetensors")
    table = next(tensor for name, tensor in embedding.items() if "embed_tokens" in name)
    expected = eagle3(backend, target, head, 9, table)
    for layout in LAYOUTS:
        out = tmp_path / layout
        export_head(head, pair_paths[0], layout, out, str(pair_paths[0]))
        np.testing.assert_array_equal(eagle3(backend, target, out, 9, table), expected)
    if find_spec("speculators"):
        sequence = eagle_oracle.random_sequence(3, WIDTH, VOCABULARY)
        told = eagle_oracle.verified_logits(tmp_path / "speculators", sequence)
        np.testing.assert_allclose(drafted(expected), told[:, 8], atol=2e-4)


@installed
@pytest.mark.parametrize("name", EAGLE3)
def test_logits_are_those_of_the_installed_package(backend, target, tmp_path, name):
    given = EAGLE3[name]
    for seed in range(3):
        directory = speculators(tmp_path / f"head {seed}", seed=seed, **given)
        layers = len(given.get("eagle_aux_hidden_state_layer_ids", [0, 1, 2]))
        sequence = eagle_oracle.random_sequence(layers, WIDTH, VOCABULARY)
        expected = eagle_oracle.logits(directory, sequence)
        for columns in range(3, eagle_oracle.COLUMNS + 1):
            rows = drafted(eagle3(backend, target, directory, columns))
            np.testing.assert_allclose(rows, expected[:, columns - 1], atol=2e-4)


@installed
@pytest.mark.parametrize("name", BLOCKS)
def test_logits_of_blocks_are_those_of_the_installed_package(backend, target, tmp_path, name):
    kind, given = BLOCKS[name]
    directory = speculators_block(tmp_path / "head", kind, seed=1, **given)
    for columns in range(2, block_oracle.COLUMNS + 1):
        rows = drafted(block_rows(backend, target, directory, columns))
        expected, _ = block_oracle.rows(directory, columns)
        np.testing.assert_allclose(rows, expected, atol=2e-4)


@installed
@pytest.mark.parametrize("kind", ["dflash", "dspark"])
def test_the_installed_package_computes_an_exported_drafter(
    backend, target, pair_paths, tmp_path, kind
):
    head = tiny_head(tmp_path / "head", kind, seed=4)
    export_head(head, pair_paths[0], "speculators", tmp_path / "out", str(pair_paths[0]))
    expected, _ = block_oracle.rows(tmp_path / "out")
    np.testing.assert_allclose(block_rows(backend, target, head), expected, atol=2e-4)


CAUSAL = {"nested": {"causal": True}}
ODD = [
    {},
    CAUSAL,
    {"num_hidden_layers": 3, "num_key_value_heads": 1, "head_dim": 22, "block_size": 3},
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
        expected = block_oracle.mlx_vlm_rows(directory, kind)
        np.testing.assert_allclose(block_rows(backend, target, directory), expected, atol=2e-4)


SLIDING = block_oracle.SLIDING | {"sliding_window": 5, "nested": {"causal": False}}


@pytest.mark.parametrize("given", [*(each for each in ODD if each != CAUSAL), SLIDING])
def test_logits_are_those_of_transformers(backend, target, tmp_path, given):
    """Three seeds; in two rounds, of which the second continues the first's cache."""
    for seed in range(3):
        directory = z_lab(tmp_path / str(seed), seed=seed, **given)
        expected = block_oracle.transformers_rows(directory)
        np.testing.assert_allclose(block_rows(backend, target, directory), expected, atol=2e-4)
