"""Formulas that are compiled where a GPU runs them, here by the C++ compiler that MLX calls."""

from collections import Counter
from dataclasses import replace
from shutil import which

import mlx.core as mx
import mlx_oracle as oracle
import numpy as np
import pytest

from mmspec.sampling import Sampling
from mmspec.tree import Tree
from mmspec_mlx.kernels import COMPILED, FUSED

pytestmark = pytest.mark.skipif(
    mx.default_device() == mx.Device(mx.cpu) and not which("g++"),
    reason="MLX compiles for a CPU with g++",
)
NUCLEUS = Sampling(temperature=0.8, top_k=50, top_p=0.95)


@pytest.fixture
def compiled(pair):
    """The pair with compiled formulas, and how often each was written down."""
    written = Counter()

    def compiling(formula):
        def spied(*arrays):
            written[formula.__name__] += 1
            return formula(*arrays)

        return mx.compile(spied)

    for model in pair:
        model.llama.kernels = replace(model.llama.kernels, compiled=compiling)
    yield written
    for model in pair:
        model.llama.kernels = replace(model.llama.kernels, compiled=FUSED.compiled)


def said(pair, views, sampling, tree):
    target = oracle.target(pair[0], views[0], sampling)
    drafter = oracle.drafter(pair[1], views, sampling, tree)
    return oracle.tokens(oracle.rounds(target, drafter, 40, seed=oracle.seed(sampling)))


@pytest.mark.parametrize("tree", [None, Tree((3, 2))], ids=["chain", "tree"])
@pytest.mark.parametrize("sampling", [oracle.GREEDY, oracle.DRAWN, NUCLEUS])
def test_compiled_formulas_give_the_same_tokens(pair, views, sampling, tree, request):
    expected = said(pair, views, sampling, tree)
    written = request.getfixturevalue("compiled")
    assert said(pair, views, sampling, tree) == expected
    assert written.total() or (tree and sampling.greedy)


def test_a_formula_is_compiled_once_for_each_shape(pair, views, compiled):
    target = oracle.target(pair[0], views[0], NUCLEUS)
    drafter = oracle.drafter(pair[1], views, NUCLEUS)
    oracle.rounds(target, drafter, 12, seed=3)
    once = compiled.copy()
    oracle.rounds(target, drafter, 60, seed=4)
    assert once["mixed"] == once["proposed"] == 1
    assert compiled == once


def test_the_gate_is_compiled_for_all_shapes_at_once():
    for shape in [(1, 1, 48), (1, 6, 48), (4, 1, 48)]:
        gate, up = mx.random.normal(shape), mx.random.normal(shape)
        expected, given = (np.array(each.gated(gate, up)) for each in (FUSED, COMPILED))
        np.testing.assert_allclose(given, expected, rtol=1e-6)
