"""Checkpoints in every format, and quantized copies as mlx-lm and mlx-vlm write and read them."""

import json
import os
import subprocess
import sys
from unittest.mock import Mock

import mlx.core as mx
import numpy as np
import pytest

from mmspec.ground.errors import BackendError, CheckpointError, UsageError
from mmspec_mlx import save_quantized
from mmspec_mlx.backend import MlxBackend
from support import factory
from support import sequence_helpers as helpers
from support.factory_qwen import tiny_qwen
from support.sequence_helpers import flat


def test_packed_weights_stay_packed(tmp_path, mlx_path):
    sizes = []
    for path in (mlx_path, factory.dequantized(mlx_path, tmp_path / "whole")):
        layers = MlxBackend().load(path).language.layers
        arrays = [array for layer in layers for array in layer.mlp.gate_up_proj.arrays]
        sizes.append(sum(array.nbytes for array in arrays))
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


def test_towers_that_differ_in_one_matrix_packed_in_its_own_way_share_no_features(
    tmp_path, llava_path
):
    path = factory.quantized(llava_path, tmp_path / "q", own={"v_proj": 8})
    tower = MlxBackend().load(path).tower
    weights = mx.load(str(path / "model.safetensors"))
    name = next(name for name in weights if "layers.0.self_attn.v_proj.weight" in name)
    weights[name] = weights[name] ^ 1
    mx.save_safetensors(str(path / "model.safetensors"), weights, metadata={"format": "mlx"})
    assert MlxBackend().load(path).tower != tower


def test_a_full_device_in_an_answer_is_an_error_and_no_fault(llava_path, monkeypatch):
    target = helpers.target(MlxBackend().load(llava_path), helpers.TEXT)
    for text, kind in (
        ("[METAL] Command buffer execution failed: Insufficient Memory.", BackendError),
        ("[malloc] Unable to allocate 12 bytes.", BackendError),
        ("the memory is full: use fewer or smaller images", RuntimeError),
    ):
        monkeypatch.setattr(target, "_forward", Mock(side_effect=RuntimeError(text)))
        with pytest.raises(kind, match="memory is full: use fewer or smaller images"):
            target.logits()


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


def quantized(source, path, bits=4, group_size=64):
    MlxBackend().quantize(source, path, bits=bits, group_size=group_size)
    return path


@pytest.mark.parametrize(
    ("layout", "tied", "bits", "group_size"),
    [
        *(("hub", True, 4, 64), ("transformers", False, 8, 32)),
        *(("qwen2", True, 4, 64), ("qwen3", False, 4, 64)),
    ],
)
def test_mlx_lm_reads_a_quantized_text_model_and_says_the_same(
    tmp_path, layout, tied, bits, group_size
):
    from mlx_lm.utils import load_model

    # mlx-lm reads no `rope_parameters` of a Qwen2: the base is its own default.
    sizes = {"tied": tied, "key_value_heads": 2}
    if layout.startswith("qwen"):
        source = tiny_qwen(layout, tmp_path / "a", theta=1e6, **sizes)
    else:
        source = factory.tiny_llama(tmp_path / "a", layout=layout, **sizes)
    path = quantized(source, tmp_path / "q", bits, group_size)
    theirs, config = load_model(path)
    assert config["quantization"]["bits"] == bits
    tokens = flat(helpers.TEXT)
    target = helpers.target(MlxBackend().load(path), helpers.TEXT)
    said = helpers.plain(target, 20)
    logits = np.array(theirs(mx.array([tokens + said]))[0])
    np.testing.assert_allclose(target.logits(), logits[-1], atol=2e-5)
    assert logits[len(tokens) - 1 : -1].argmax(-1).tolist() == said


@pytest.mark.parametrize("layout", ["hub", "transformers"])
def test_a_quantized_llava_holds_what_an_mlx_conversion_does(tmp_path, layout):
    """Names, shapes, types and values, the projector quantized and the tower not."""
    source = factory.tiny_llava(tmp_path / "a", layout=layout, dtype="float16", sharded=True)
    hub = factory.tiny_llava(tmp_path / "h", dtype="float16")
    places = quantized(source, tmp_path / "q"), factory.quantized(hub, tmp_path / "c", vision=False)
    ours, expected = (mx.load(str(place / "model.safetensors")) for place in places)
    assert ours.keys() == expected.keys()
    for name, array in expected.items():
        assert ours[name].dtype == array.dtype
        assert mx.array_equal(ours[name], array), name


def test_the_second_head_of_a_tied_model_is_not_copied(tmp_path):
    source = factory.tiny_llama(tmp_path / "llama", tied=True)
    tensors = mx.load(str(source / "model.safetensors"))
    tensors["lm_head.weight"] = tensors["model.embed_tokens.weight"]
    mx.save_safetensors(str(source / "model.safetensors"), tensors)
    copy = mx.load(str(quantized(source, tmp_path / "copy", 4, 32) / "model.safetensors"))
    assert "model.embed_tokens.scales" in copy
    assert not [name for name in copy if "lm_head" in name]


def test_side_files_come_along_and_weights_code_and_indexes_do_not(tmp_path):
    source = factory.tiny_llava(tmp_path / "a", sharded=True)
    (source / "modeling.py").write_text("raise SystemExit")
    (source / "tokenizer.model").write_bytes(b"sentencepiece")
    path = quantized(source, tmp_path / "q")
    kept = {file.name for file in source.iterdir() if file.suffix in (".json", ".model")}
    kept -= {"model.safetensors.index.json"}
    assert {file.name for file in path.iterdir()} == kept | {"model.safetensors"}
    config = json.loads((path / "config.json").read_text())
    assert config.pop("quantization") == {"bits": 4, "group_size": 64, "mode": "affine"}
    assert config == json.loads((source / "config.json").read_text())


def test_large_copies_are_written_in_shards(tmp_path, llava_path, monkeypatch):
    whole = MlxBackend().load(quantized(llava_path, tmp_path / "one"))
    monkeypatch.setattr(save_quantized, "SHARD_BYTES", 50_000)
    path = quantized(llava_path, tmp_path / "many")
    index = json.loads((path / "model.safetensors.index.json").read_text())
    files = sorted(file.name for file in path.glob("*.safetensors"))
    assert len(files) > 2
    assert files == sorted(set(index["weight_map"].values()))
    assert files[-1] == f"model-{len(files):05}-of-{len(files):05}.safetensors"
    models = (MlxBackend().load(path), whole)
    np.testing.assert_array_equal(*(helpers.target(each, helpers.TEXT).logits() for each in models))


def test_what_cannot_be_quantized_is_refused_before_anything_is_written(
    tmp_path, llava_path, mlx_path
):
    path = tmp_path / "q"
    for source, bits, group, said in (
        (llava_path, 3, 64, "unknown number of bits '3': use 2, 4 or 8"),
        (llava_path, 4, 48, "unknown group size '48': use 32, 64 or 128"),
        (mlx_path, 4, 64, "already quantized"),
    ):
        with pytest.raises(UsageError, match=said):
            quantized(source, path, bits, group)
    with pytest.raises(CheckpointError, match=r"config\.json"):
        quantized(tmp_path / "nowhere", path)
    assert not path.exists()
    path.mkdir()
    (path / "mine.txt").write_text("precious")
    with pytest.raises(UsageError, match="not empty"):
        quantized(llava_path, path)
