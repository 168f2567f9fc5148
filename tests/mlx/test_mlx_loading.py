"""Checkpoints in every format, devices, types, and what cannot be had."""

import os
import subprocess
import sys
from pathlib import Path

import mlx.core as mx
import numpy as np
import pytest

from mmspec.checkpoints.config import read_config
from mmspec.checkpoints.loading_plan import plan
from mmspec.ground.errors import CheckpointError, UsageError
from mmspec_mlx.backend import MlxBackend, build
from mmspec_mlx.device.weights import Weights
from support import factory
from support import sequence_helpers as helpers
from support.full_size import FULL_SIZE

DTYPES = {"F32": mx.float32, "F16": mx.float16, "BF16": mx.bfloat16, "U32": mx.uint32}


def check(sources, config):
    """Build a model of zeros that are never computed, and enqueue every module."""
    weights = Weights(
        sources,
        mx.float16,
        read=lambda stored: mx.zeros(stored.shape, DTYPES[stored.dtype]),
        settle=lambda *_: None,
    )
    model = build(weights, config, "cpu", Path("the plan"))
    language, rows = model.language, model.language.embed(mx.array([0]))
    if config.vision:
        side = config.vision.image_size
        rows = model._tower.project(model._tower.encode(mx.zeros((3, side, side))))
    x = rows[None, :, : config.text.hidden_size]
    turn = language.rotary.at([0], x.shape[1])
    language.logits(language.feed(x, language.new_cache(rows=1), 0, turn, None))


@pytest.mark.parametrize("name", FULL_SIZE)
def test_the_modules_use_exactly_a_full_size_checkpoint(tmp_path, name):
    path = FULL_SIZE[name].write(tmp_path / "a")
    before = mx.get_active_memory()
    config = read_config(path)
    check(plan(path, config), config)
    assert mx.get_active_memory() - before < 2_000_000


def test_a_plan_that_the_modules_do_not_use_exactly_does_not_pass(llava_path):
    config = read_config(llava_path)
    sources = plan(llava_path, config)
    name = "language_model.layers.1.mlp.down_proj.weight"
    with pytest.raises(CheckpointError, match=name):
        check({key: source for key, source in sources.items() if key != name}, config)
    with pytest.raises(CheckpointError, match="extra is used by no module"):
        check(sources | {"extra": sources[name]}, config)
    for other in ("self_attn.o_proj.weight", "mlp.up_proj.weight"):
        wrong = sources[f"language_model.layers.0.{other}"]
        with pytest.raises(ValueError, match="shape"):
            check(sources | {name: wrong}, config)


@pytest.mark.parametrize(
    ("bits", "group", "vision", "tied"), [(4, 32, True, False), (4, 64, False, True)]
)
def test_packed_weights_stay_packed_and_compute_what_their_unpacked_ones_do(
    tmp_path, bits, group, vision, tied
):
    source = factory.tiny_llava(tmp_path / "a", dtype="float16", tied=tied)
    packed = factory.quantized(source, tmp_path / "q", bits, group, vision=vision, bare=True)
    plain = factory.dequantized(packed, tmp_path / "u")
    models = [MlxBackend().load(path) for path in (packed, plain)]
    assert (models[0].tower == models[1].tower) is not vision
    logits, sizes = [], []
    for model in models:
        prompt = helpers.prompt([model.encode(helpers.pixels(32)[0])])
        logits.append(helpers.target(model, prompt).logits())
        arrays = [layer.mlp.gate_up_proj.arrays for layer in model.language.layers]
        sizes.append(sum(array.nbytes for each in arrays for array in each))
    np.testing.assert_allclose(*logits, atol=5e-5)
    assert sizes[0] < sizes[1] / 2


def test_a_module_quantized_in_part_is_unpacked_whole(tmp_path, llava_path):
    path = factory.quantized(llava_path, tmp_path / "q", 8, 32, vision=False)
    weights = mx.load(str(path / "model.safetensors"))
    source = mx.load(str(llava_path / "model.safetensors"))
    stem = "language_model.model.layers.0.self_attn.v_proj."
    del weights[f"{stem}scales"], weights[f"{stem}biases"]
    weights[f"{stem}weight"] = source[f"{stem}weight"]
    mx.save_safetensors(str(path / "model.safetensors"), weights, metadata={"format": "mlx"})
    models = [MlxBackend().load(each) for each in (path, llava_path)]
    logits = [helpers.target(model, helpers.TEXT).logits() for model in models]
    np.testing.assert_allclose(*logits, atol=0.2)


def test_only_a_copy_is_quantized(llava_path):
    with pytest.raises(UsageError, match=r"on mlx .* with `mmspec models quantize"):
        MlxBackend().load(llava_path, quantize="int4")


def test_importing_the_package_settles_blas_and_float32_before_mlx():
    script = """
import os, sys
import mmspec_mlx
assert os.environ["MLX_ENABLE_TF32"] == "0"
assert "mlx.core" not in sys.modules
from mmspec_mlx.device import blas
print(blas.describe()["blas"])
"""
    found = subprocess.check_output([sys.executable, "-c", script], text=True).strip()
    assert found in {"OpenBLAS", "Accelerate", "reference (slow)"}


@pytest.mark.skipif(sys.platform != "linux", reason="macOS multiplies through Accelerate")
def test_blas_leaves_a_core_to_python_unless_told_otherwise():
    cores = len(os.sched_getaffinity(0))
    others = {key: value for key, value in os.environ.items() if "_NUM_THREADS" not in key}
    script = "import mmspec_mlx.device.blas as blas; print(blas.describe().get('blas_threads'))"
    for named in ({}, {"OPENBLAS_NUM_THREADS": str(cores)}):
        run = [sys.executable, "-c", script]
        found = subprocess.check_output(run, text=True, env=others | named).strip()
        if found == "None":
            pytest.skip("no OpenBLAS here")
        assert int(found) == (cores if named else max(1, cores - 1))


def test_without_openblas_the_command_that_brings_it_is_named(monkeypatch):
    from mmspec_mlx.device import blas

    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr(blas, "LIBRARY", "libnowhere.so.0")
    assert blas.describe() == {
        "blas": "reference (slow)",
        "hint": "faster with OpenBLAS: apt install libopenblas0-pthread",
    }
