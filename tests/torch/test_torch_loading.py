"""Checkpoints in every format, devices, types, and what cannot be had."""

from dataclasses import replace

import mlx.core as mx
import numpy as np
import pytest
import torch
import torch_oracle as oracle

import factory
from mmspec.checkpoint import plan
from mmspec.config import ModelConfig, TextConfig, VisionConfig, read_config
from mmspec.errors import BackendError, CheckpointError, UsageError
from mmspec.manifest import hub_name
from mmspec_torch.backend import TorchBackend, untaken_tensors
from mmspec_torch.weights import read_tensor

LLAVA_7B = ModelConfig(
    kind="llava",
    text=TextConfig(4096, 11008, 32, 32, 32, 128, 32064, 4096, 1e-5, 1e4, False),
    vision=VisionConfig(1024, 4096, 24, 16, 336, 14),
    image_token_id=32000,
    vision_feature_layer=-2,
    drops_class_token=True,
    projector_act="gelu",
    quantization=None,
    eos_token_ids=(2,),
    dtype="float16",
)
LLAVA_13B = replace(
    LLAVA_7B, text=TextConfig(5120, 13824, 40, 40, 40, 128, 32064, 4096, 1e-5, 1e4, False)
)
LVLM_68M = replace(
    LLAVA_7B, text=TextConfig(768, 3072, 2, 12, 12, 64, 32064, 2048, 1e-6, 1e4, False)
)
LLAMA_68M = replace(LVLM_68M, kind="llama", vision=None, image_token_id=None)
GROUPED_TIED = replace(
    LLAVA_7B, text=TextConfig(2048, 8192, 2, 32, 8, 64, 32064, 4096, 1e-5, 5e5, True)
)
FULL_SIZES = {
    "llava 7b": LLAVA_7B,
    "llava 13b": LLAVA_13B,
    "lvlm 68m": LVLM_68M,
    "llama 68m": LLAMA_68M,
    "grouped queries, tied": GROUPED_TIED,
}


@pytest.mark.parametrize("config", FULL_SIZES.values(), ids=FULL_SIZES)
def test_the_modules_use_exactly_the_manifest_at_full_size(config):
    assert untaken_tensors(config) == []


def test_a_manifest_of_another_size_does_not_pass(monkeypatch):
    from mmspec_torch import weights

    wrong = replace(LLAMA_68M, text=replace(LLAMA_68M.text, num_key_value_heads=6))
    shapes = weights.manifest(wrong)
    monkeypatch.setattr(weights, "manifest", lambda config: shapes)
    with pytest.raises(RuntimeError):
        untaken_tensors(LLAMA_68M)


@pytest.mark.parametrize("layout", ["hub", "transformers"])
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_every_layout_and_type_gives_the_same_model(tmp_path, layout, dtype):
    path = factory.tiny_llava(tmp_path / "a", layout=layout, dtype=dtype, sharded=True)
    whole = factory.tiny_llava(tmp_path / "b", dtype=dtype)
    models = [TorchBackend().load(each, device="cpu") for each in (path, whole)]
    assert [model.dtype for model in models] == ["float32"] * 2
    assert models[0].tower == models[1].tower != ""
    logits = [oracle.opened(model, oracle.prompt([])).logits() for model in models]
    np.testing.assert_array_equal(*logits)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_precision_stays_near_float32(llava_path, dtype):
    exact = TorchBackend().load(llava_path, device="cpu")
    rounded = TorchBackend().load(llava_path, device="cpu", dtype=dtype)
    assert rounded.dtype == dtype
    assert rounded.tower != exact.tower
    image = oracle.pixels(32)[0]
    prompts = [oracle.prompt([model.encode(image)]) for model in (exact, rounded)]
    near = oracle.opened(rounded, prompts[1])
    expected = oracle.opened(exact, prompts[0]).logits()
    scale = np.abs(expected).max()
    np.testing.assert_allclose(near.logits(), expected, atol=0.1 * scale)
    assert len(oracle.plain(near, 3)) == 3


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize(("bits", "group"), [(4, 32), (4, 64), (8, 64)])
def test_quantized_weights_are_those_mlx_dequantizes(tmp_path, bits, group, dtype):
    source = factory.tiny_llava(tmp_path / "a", dtype="float16")
    path = factory.quantized(source, tmp_path / "q", bits, group)
    weights, kind = mx.load(str(path / "model.safetensors")), getattr(mx, dtype)
    config = read_config(path)
    packed = {name: each for name, each in plan(path, config).items() if each.packing}
    assert len(packed) > 20
    for name, item in packed.items():
        stem = hub_name(name, config).removesuffix("weight")
        scales, biases = (weights[stem + part].astype(kind) for part in ("scales", "biases"))
        integers = weights[stem + "weight"]
        expected = mx.dequantize(integers, scales, biases, group_size=group, bits=bits)
        got = read_tensor(item, getattr(torch, dtype))
        np.testing.assert_array_equal(got.float(), np.array(expected.astype(mx.float32)))


@pytest.mark.parametrize("vision", [True, False])
def test_a_quantized_model_runs_and_is_near_its_source(tmp_path, llava_path, vision):
    path = factory.quantized(llava_path, tmp_path / "q", 8, 32, vision=vision, bare=True)
    model, source = (TorchBackend().load(each, device="cpu") for each in (path, llava_path))
    assert (model.tower == source.tower) is not vision
    image = oracle.pixels(32)[0]
    logits = [
        oracle.opened(each, oracle.prompt([each.encode(image)])).logits()
        for each in (model, source)
    ]
    np.testing.assert_allclose(*logits, atol=0.2)


def test_an_unquantized_mlx_conversion_is_the_same_model(tmp_path, llava_path):
    path = factory.quantized(llava_path, tmp_path / "q", 0)
    model, source = (TorchBackend().load(each, device="cpu") for each in (path, llava_path))
    assert model.tower == source.tower


def test_what_cannot_be_had_is_named_with_what_can(llava_path, tmp_path):
    backend = TorchBackend()
    with pytest.raises(UsageError, match=r"unknown torch device 'tpu': use auto.* or cpu"):
        backend.load(llava_path, device="tpu")
    with pytest.raises(UsageError, match=r"'cpu:1'.* 1 cpu"):
        backend.load(llava_path, device="cpu:1")
    with pytest.raises(UsageError, match=r"'float8': use auto, float32"):
        backend.load(llava_path, dtype="float8")
    with pytest.raises(BackendError, match="mlx backend"):
        backend.quantize(llava_path, tmp_path / "q", bits=4, group_size=64)
    assert not (tmp_path / "q").exists()


def test_a_file_cut_after_its_header_was_read_is_named(tmp_path):
    path = factory.tiny_llama(tmp_path / "a")
    sources = plan(path, read_config(path))
    file = path / "model.safetensors"
    file.write_bytes(file.read_bytes()[:-100])
    last = max(sources.values(), key=lambda source: source.stored.end)
    with pytest.raises(CheckpointError, match=r"model\.safetensors ends inside"):
        read_tensor(last, torch.float32)


def test_a_text_model_has_no_tower_and_no_eyes(llama_path, llava_path):
    model = TorchBackend().load(llama_path, device="cpu")
    assert model.tower == ""
    with pytest.raises(UsageError, match="text-only"):
        model.encode(oracle.pixels(32)[0])
    features = TorchBackend().load(llava_path, device="cpu").encode(oracle.pixels(32)[0])
    with pytest.raises(UsageError, match="give a square"):
        features.pooled(9)


def test_describe_is_fit_for_json_and_memory_is_counted():
    import json

    backend = TorchBackend()
    backend.reset_peak_memory()
    assert backend.peak_memory() > 10_000_000
    assert json.loads(json.dumps(backend.describe()))["devices"][-1] == "cpu"
