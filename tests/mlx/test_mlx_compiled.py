"""Formulas that are compiled where a GPU runs them, here by the C++ compiler that MLX calls."""

from collections import Counter
from shutil import which

import mlx.core as mx
import numpy as np
import pytest

from mmspec.decoding.sampling import Sampling
from mmspec.decoding.tree import Tree
from mmspec_mlx.device import framework
from mmspec_mlx.network import decoder
from mmspec_mlx.sequence import ensemble
from support import sequence_helpers as helpers

pytestmark = pytest.mark.skipif(
    mx.default_device() == mx.Device(mx.cpu) and not which("g++"),
    reason="MLX compiles for a CPU with g++",
)
NUCLEUS = Sampling(temperature=0.8, top_k=50, top_p=0.95)


@pytest.fixture
def written(monkeypatch):
    """Formulas are compiled from now on; counts how often each is traced."""
    counts = Counter()

    def compiling(formula):
        def counted(*arrays):
            counts[getattr(formula, "func", formula).__name__] += 1
            return formula(*arrays)

        return mx.compile(counted)

    for module in (framework, ensemble):
        monkeypatch.setattr(module, "compiled", compiling)
    return counts


def said(pair, views, sampling, tree):
    target = helpers.target(pair[0], views[0], sampling)
    drafter = helpers.branches(pair[1], views, sampling, tree)
    return helpers.tokens(helpers.rounds(target, drafter, 40, seed=3))


@pytest.mark.parametrize("tree", [None, Tree((3, 2))], ids=["chain", "tree"])
@pytest.mark.parametrize("sampling", [helpers.GREEDY, helpers.DRAWN, NUCLEUS])
def test_compiled_formulas_give_the_same_tokens(pair, views, sampling, tree, request):
    expected = said(pair, views, sampling, tree)
    written = request.getfixturevalue("written")
    assert said(pair, views, sampling, tree) == expected
    assert written.total()


def test_a_formula_is_compiled_once_for_each_shape(pair, views, written):
    target = helpers.target(pair[0], views[0], NUCLEUS)
    drafter = helpers.branches(pair[1], views, NUCLEUS)
    helpers.rounds(target, drafter, 60, seed=3)
    once = written.copy()
    helpers.rounds(target, drafter, 60, seed=4)
    assert once["mixed"] == 1
    assert once["exponentials"] >= 1
    assert written == once


def test_the_gate_is_compiled_for_all_shapes_at_once():
    for shape in [(1, 1, 48), (1, 6, 48), (4, 1, 48)]:
        gate, up = mx.random.normal(shape), mx.random.normal(shape)
        forms = (decoder.swiglu, decoder._fused_swiglu)
        expected, given = (np.array(form(gate, up)) for form in forms)
        np.testing.assert_allclose(given, expected, rtol=1e-6)
