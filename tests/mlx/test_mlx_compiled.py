"""Formulas that are compiled where a GPU runs them, here by the C++ compiler that MLX calls."""

from collections import Counter
from dataclasses import replace
from shutil import which

import mlx.core as mx
import numpy as np
import pytest

from mmspec.decoding.contract import Segment
from mmspec.decoding.draft import HostDraft
from mmspec.decoding.noise import NO_NOISE
from mmspec.decoding.sampling import Sampling
from mmspec.decoding.tree import Tree
from mmspec_mlx.backend import MlxBackend
from mmspec_mlx.device.framework import framework
from mmspec_mlx.device.kernels import CPU, GPU
from support import sequence_helpers as helpers
from support.factory_qwen import tiny_qwen

pytestmark = pytest.mark.skipif(
    mx.default_device() == mx.Device(mx.cpu) and not which("g++"),
    reason="MLX compiles for a CPU with g++",
)
NUCLEUS = Sampling(temperature=0.8, top_k=50, top_p=0.95)


def counting(counts, formula, run):
    """`run`, which counts its calls by the name of a formula."""

    def counted(*arrays):
        counts[getattr(formula, "func", formula).__name__] += 1
        return run(*arrays)

    return counted


@pytest.fixture
def compiled(pair):
    """The pair with compiled formulas, and how often each was written down."""
    written = Counter()

    def compiling(formula):
        return mx.compile(counting(written, formula, formula))

    ordinary = [model.language.framework for model in pair]
    for model in pair:
        model.language.framework = framework(replace(CPU, compile=compiling))
    yield written
    for model, own in zip(pair, ordinary, strict=True):
        model.language.framework = own


def said(pair, views, sampling, tree):
    target = helpers.target(pair[0], views[0], sampling)
    drafter = helpers.branches(pair[1], views, sampling, tree)
    return helpers.tokens(helpers.rounds(target, drafter, 40, seed=3))


@pytest.mark.parametrize("tree", [None, Tree((3, 2))], ids=["chain", "tree"])
@pytest.mark.parametrize("sampling", [helpers.GREEDY, helpers.DRAWN, NUCLEUS])
def test_compiled_formulas_give_the_same_tokens(pair, views, sampling, tree, request):
    expected = said(pair, views, sampling, tree)
    written = request.getfixturevalue("compiled")
    assert said(pair, views, sampling, tree) == expected
    assert written.total()


def test_a_formula_is_compiled_once_for_each_shape(pair, views, compiled):
    target = helpers.target(pair[0], views[0], NUCLEUS)
    drafter = helpers.branches(pair[1], views, NUCLEUS)
    helpers.rounds(target, drafter, 60, seed=3)
    once = compiled.copy()
    helpers.rounds(target, drafter, 60, seed=4)
    assert once["_mixture"] == 1
    assert once["exponentials"] >= 1
    assert compiled == once


def test_a_recurrent_layer_goes_back_by_the_formula_that_took_it_forward(tmp_path, monkeypatch):
    """Compiled operations may round in another way than those that are written down."""
    called = Counter()
    kernels = replace(CPU, compile=lambda each: counting(called, each, mx.compile(each)))
    monkeypatch.setattr("mmspec_mlx.device.weights.kernels", lambda _: kernels)
    model = MlxBackend().load(tiny_qwen("qwen3_5", tmp_path / "recurrent", kinds="dad"))
    target = model.open_target(helpers.GREEDY)
    target.extend(Segment([[*range(20, 40)]]))
    target.verify(HostDraft([30, 31, 32]), NO_NOISE)
    assert called["advance"] == 2 * 4
    target.commit((), 50)
    target.verify(None, NO_NOISE)
    assert called["advance"] == 2 * (4 + 1 + 1)


def test_the_gate_is_compiled_for_all_shapes_at_once():
    for shape in [(1, 1, 48), (1, 6, 48), (4, 1, 48)]:
        gate, up = mx.random.normal(shape), mx.random.normal(shape)
        expected, given = (np.array(each.swiglu(gate, up)) for each in (CPU, GPU))
        np.testing.assert_allclose(given, expected, rtol=1e-6)
