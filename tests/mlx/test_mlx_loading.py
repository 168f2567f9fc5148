"""Checkpoints in every format, devices, types, and what cannot be had."""

import json
import os
import subprocess
import sys
from functools import partial
from types import SimpleNamespace

import mlx.core as mx
import mlx_oracle as oracle
import numpy as np
import pytest

import factory
from full_size import FULL_SIZE
from mmspec.checkpoint import plan
from mmspec.config import read_config
from mmspec.errors import CheckpointError, UsageError
from mmspec_mlx.backend import MlxBackend, check


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
        with pytest.raises(CheckpointError, match="cannot run"):
            check(sources | {name: wrong}, config)


@pytest.mark.parametrize("layout", ["hub", "transformers"])
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_every_layout_and_type_gives_the_same_model(tmp_path, layout, dtype):
    path = factory.tiny_llava(tmp_path / "a", layout=layout, dtype=dtype, sharded=True)
    whole = factory.tiny_llava(tmp_path / "b", dtype=dtype)
    models = [MlxBackend().load(each) for each in (path, whole)]
    assert [model.dtype for model in models] == ["float32"] * 2
    assert models[0].tower == models[1].tower != ""
    np.testing.assert_array_equal(*(oracle.target(each, oracle.TEXT).logits() for each in models))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_precision_stays_near_float32(llava_path, dtype):
    exact, rounded = (MlxBackend().load(llava_path, dtype=each) for each in ("float32", dtype))
    assert rounded.dtype == dtype
    assert rounded.tower != exact.tower
    image = oracle.pixels(32)
    prompts = [oracle.prompt([model.encode(image)]) for model in (exact, rounded)]
    expected = oracle.target(exact, prompts[0]).logits()
    target = oracle.target(rounded, prompts[1])
    np.testing.assert_allclose(target.logits(), expected, atol=0.1 * np.abs(expected).max())
    drafter = oracle.drafter(rounded, [prompts[1], oracle.TEXT])
    assert len(oracle.tokens(oracle.rounds(target, drafter, 12))) == 12


@pytest.mark.parametrize("vision", [True, False], ids=["tower too", "tower plain"])
@pytest.mark.parametrize(("bits", "group"), [(4, 32), (4, 64), (8, 64)])
@pytest.mark.parametrize("tied", [True, False], ids=["tied", "head"])
def test_packed_weights_compute_what_their_unpacked_ones_do(tmp_path, bits, group, vision, tied):
    source = factory.tiny_llava(tmp_path / "a", dtype="float16", tied=tied)
    packed = factory.quantized(source, tmp_path / "q", bits, group, vision=vision, bare=True)
    plain = unpacked(packed, tmp_path / "u", bits, group)
    models = [MlxBackend().load(path) for path in (packed, plain)]
    assert (models[0].tower == models[1].tower) is not vision
    logits = []
    for model in models:
        prompt = oracle.prompt([model.encode(oracle.pixels(32))])
        logits.append(oracle.target(model, prompt).logits())
    np.testing.assert_allclose(*logits, atol=5e-5)


def unpacked(packed, path, bits, group):
    """The checkpoint that a quantized one stands for, in float32."""
    path.mkdir()
    weights = mx.load(str(packed / "model.safetensors"))
    whole = {}
    for name, array in weights.items():
        stem = name.removesuffix("weight")
        if name.endswith((".scales", ".biases")):
            continue
        if f"{stem}scales" in weights:
            parts = (weights[f"{stem}{part}"].astype(mx.float32) for part in ("scales", "biases"))
            array = mx.dequantize(array, *parts, group_size=group, bits=bits)
        whole[name] = array.astype(mx.float32)
    mx.save_safetensors(str(path / "model.safetensors"), whole, metadata={"format": "mlx"})
    config = json.loads((packed / "config.json").read_text())
    del config["quantization"]
    (path / "config.json").write_text(json.dumps(config))
    return path


def test_packed_matrices_stay_packed(mlx_path, llava_path):
    packed, plain = (MlxBackend().load(path) for path in (mlx_path, llava_path))
    sizes = [
        sum(array.nbytes for layer in model.llama._layers for array in layer.gate_up.arrays)
        for model in (packed, plain)
    ]
    assert sizes[0] < sizes[1] / 5


def test_a_module_quantized_in_part_is_unpacked_whole(tmp_path, llava_path):
    path = factory.quantized(llava_path, tmp_path / "q", 8, 32, vision=False)
    weights = mx.load(str(path / "model.safetensors"))
    source = mx.load(str(llava_path / "model.safetensors"))
    stem = "language_model.model.layers.0.self_attn.v_proj."
    del weights[f"{stem}scales"], weights[f"{stem}biases"]
    weights[f"{stem}weight"] = source[f"{stem}weight"]
    mx.save_safetensors(str(path / "model.safetensors"), weights, metadata={"format": "mlx"})
    models = [MlxBackend().load(each) for each in (path, llava_path)]
    logits = [oracle.target(model, oracle.TEXT).logits() for model in models]
    np.testing.assert_allclose(*logits, atol=0.2)


def test_an_unquantized_mlx_conversion_is_the_same_model(tmp_path, llava_path):
    path = factory.quantized(llava_path, tmp_path / "q", 0)
    models = [MlxBackend().load(each) for each in (path, llava_path)]
    assert models[0].tower == models[1].tower


def test_towers_that_see_differently_have_other_digests(tmp_path, llava_path, llama_path):
    load = MlxBackend().load
    towers = [load(factory.tiny_llava(tmp_path / str(layer), feature_layer=layer)).tower
              for layer in (-2, -1, 1)]  # fmt: skip
    assert towers[0] == load(llava_path).tower
    assert len(set(towers)) == 3
    assert load(llama_path).tower == ""


def test_what_cannot_be_had_is_named_with_what_can(llava_path):
    with pytest.raises(UsageError, match=r"unknown MLX device 'cuda': use auto.* or cpu"):
        MlxBackend().load(llava_path, device="cuda")
    with pytest.raises(UsageError, match=r"'float8': use auto, float32"):
        MlxBackend().load(llava_path, dtype="float8")
    with pytest.raises(UsageError, match=r"on mlx .* with `mmspec models quantize"):
        MlxBackend().load(llava_path, quantize="int4")


def test_a_text_model_has_no_eyes(llama_path):
    with pytest.raises(UsageError, match="text-only"):
        MlxBackend().load(llama_path).encode(oracle.pixels(32))


def test_describe_is_fit_for_json_and_memory_is_counted(llava_path):
    backend = MlxBackend()
    backend.reset_peak_memory()
    model = backend.load(llava_path)
    assert backend.peak_memory() > 100_000
    described = json.loads(json.dumps(backend.describe()))
    assert described["devices"][-1] == model.device == "cpu" == described["device"]


def test_importing_the_package_settles_blas_and_float32_before_mlx():
    script = """
import os, sys
import mmspec_mlx
assert os.environ["MLX_ENABLE_TF32"] == "0"
assert "mlx.core" not in sys.modules
from mmspec_mlx import blas
print(blas.describe()["blas"])
"""
    run = [sys.executable, "-c", script]
    found = subprocess.run(run, check=True, capture_output=True, text=True).stdout.strip()
    assert found in {"OpenBLAS", "Accelerate", "reference (slow)"}


@pytest.mark.skipif(sys.platform != "linux", reason="macOS multiplies through Accelerate")
@pytest.mark.parametrize("told", [False, True])
def test_blas_leaves_a_core_to_python_unless_told_otherwise(told):
    name, cores = "OPENBLAS_NUM_THREADS", len(os.sched_getaffinity(0))
    others = {key: value for key, value in os.environ.items() if key != name}
    script = "import mmspec_mlx.blas as blas; print(blas.describe().get('blas_threads'))"
    env = others | ({name: str(cores)} if told else {})
    run = [sys.executable, "-c", script]
    found = subprocess.run(run, check=True, capture_output=True, text=True, env=env).stdout.strip()
    if found == "None":
        pytest.skip("no OpenBLAS here")
    assert int(found) == (cores if told else max(1, cores - 1))


@pytest.mark.skipif(sys.platform != "linux", reason="macOS multiplies through Accelerate")
@pytest.mark.parametrize("told", [None, "Haswell"])
def test_whose_kernels_openblas_runs_is_said_and_who_chose_them(told):
    others = {key: value for key, value in os.environ.items() if key != "OPENBLAS_CORETYPE"}
    script = """
import json, mmspec_mlx.blas as blas
print(json.dumps(blas.describe() | {"small": blas.multiplies_small_as_they_lie()}))
"""
    env = others | ({"OPENBLAS_CORETYPE": told} if told else {})
    run = [sys.executable, "-c", script]
    printed = subprocess.run(run, check=True, capture_output=True, text=True, env=env).stdout
    found = json.loads(printed)
    if found["blas"] != "OpenBLAS":
        pytest.skip("no OpenBLAS here")
    assert ("unset OPENBLAS_CORETYPE" in found.get("hint", "")) == bool(told)
    if found["blas_core"] == "Haswell":  # an OpenBLAS for one processor alone is not told anything
        assert not found["small"]


@pytest.mark.parametrize(
    ("core", "small"), [(b"SkylakeX", True), (b"COOPERLAKE", True), (b"Haswell", False)]
)
def test_small_products_are_cheap_with_kernels_for_avx512(monkeypatch, core, small):
    from mmspec_mlx import blas

    library = SimpleNamespace(openblas_get_corename=SimpleNamespace())
    library.openblas_get_corename = partial(bytes, core)
    monkeypatch.setattr(blas, "_openblas", lambda: library)
    assert blas.multiplies_small_as_they_lie.__wrapped__() is small
    monkeypatch.setattr(blas, "_openblas", SimpleNamespace)  # lacks the function
    assert blas.multiplies_small_as_they_lie.__wrapped__() is False


def test_without_openblas_the_command_that_brings_it_is_named(monkeypatch):
    from mmspec_mlx import blas

    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr(blas, "LIBRARY", "libnowhere.so.0")
    assert blas.describe() == {
        "blas": "reference (slow)",
        "hint": "faster with OpenBLAS: apt install libopenblas0-pthread",
    }
