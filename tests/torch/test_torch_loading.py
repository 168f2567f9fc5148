"""Checkpoints in every format, devices, types, and what cannot be had."""

from dataclasses import replace
from pathlib import Path

import mlx.core as mx
import numpy as np
import pytest
import torch

from mmspec.checkpoints.cards import load_cards
from mmspec.checkpoints.config import read_config
from mmspec.checkpoints.loading_plan import plan
from mmspec.checkpoints.manifest import hub_name
from mmspec.decoding.contract import Segment
from mmspec.decoding.sampling import GREEDY
from mmspec.ground.errors import BackendError, CheckpointError, UsageError
from mmspec_torch.backend import TorchBackend, TorchModel
from mmspec_torch.device.weights import read_tensor
from support import factory
from support import sequence_helpers as helpers
from support.meta_weights import meta_weights

MODELS = {name: card.model for name, card in load_cards().items() if card.model}
LLAVA_7B = MODELS["llava-1.5-7b"]


def few_layers(config):
    """The model with two language layers, all others like them."""
    return replace(config, text=replace(config.text, num_hidden_layers=2))


@pytest.mark.parametrize("name", ["llava-1.5-13b", "qwen3-vl-4b", "qwen2.5-vl-7b", "smollm2-135m"])
def test_the_modules_use_exactly_the_manifest_at_full_size(name):
    """Two layers on the meta device; a missing tensor or a wrong shape raises."""
    config = few_layers(MODELS[name])
    weights = meta_weights(config)
    model = TorchModel(weights, config)
    parts = [[0, 0]]
    if name.startswith("llava"):
        size = config.vision.image_size
        parts = [model.encode(np.zeros((3, size, size), np.float32)), [0]]
    drafter = model.open_branches(1, config.text.vocab_size, GREEDY)
    drafter.extend([Segment(parts)])
    helpers.draft(drafter, 1, 1.0)
    assert weights.remainder == []


@pytest.mark.parametrize(("bits", "dtype"), [(3, "bfloat16"), (8, "float16")])
def test_quantized_weights_are_those_mlx_dequantizes(tmp_path, llava_path, bits, dtype):
    path = factory.quantized(llava_path, tmp_path / "q", bits, 64)
    weights, kind = mx.load(str(path / "model.safetensors")), getattr(mx, dtype)
    config = read_config(path)
    packed = {name: each for name, each in plan(path, config).items() if each.packing}
    assert len(packed) > 20
    for name, item in packed.items():
        stem = hub_name(name, config).removesuffix("weight")
        scales, biases = (weights[stem + part].astype(kind) for part in ("scales", "biases"))
        integers = weights[stem + "weight"]
        expected = mx.dequantize(integers, scales, biases, group_size=64, bits=bits)
        got = read_tensor(item, getattr(torch, dtype))
        np.testing.assert_array_equal(got.float(), np.array(expected.astype(mx.float32)))


def test_a_device_that_is_not_there_and_a_file_cut_after_its_header_are_named(tmp_path):
    path = factory.tiny_llama(tmp_path / "a")
    for device in ("cpu:1", "cpu:"):
        with pytest.raises(UsageError, match=rf"'{device}'.* 1 cpu"):
            TorchBackend().load(path, device=device)
    sources = plan(path, read_config(path))
    file = path / "model.safetensors"
    file.write_bytes(file.read_bytes()[:-100])
    last = max(sources.values(), key=lambda source: source.tensor.end)
    with pytest.raises(CheckpointError, match=r"model\.safetensors ends inside"):
        read_tensor(last, torch.float32)


def full(*_):
    raise torch.OutOfMemoryError("CUDA out of memory")


def test_a_full_device_in_an_answer_is_an_error_and_no_fault(llava_path, monkeypatch):
    target = helpers.target(TorchBackend().load(llava_path, device="cpu"), helpers.TEXT)
    monkeypatch.setattr(target, "_forward", full)
    with pytest.raises(BackendError, match="memory is full: use fewer or smaller images"):
        target.logits()


def test_a_head_that_does_not_fit_is_an_error_and_no_fault(llava_path, monkeypatch):
    model = TorchBackend().load(llava_path, device="cpu")
    monkeypatch.setattr("mmspec_torch.backend.load_head", full)
    with pytest.raises(BackendError, match=r"^head does not fit the memory of cpu: use"):
        TorchBackend().load_head(Path("head"), model)


def test_waits_and_counters_are_of_the_models_gpu(llava_path, monkeypatch):
    """Another thread's own GPU is the first."""
    backend, gpu, places = TorchBackend(), torch.device("cuda", 1), []
    monkeypatch.setattr("mmspec_torch.backend.find_device", lambda _: gpu)
    monkeypatch.setattr("mmspec_torch.backend.open_weights", full)
    with monkeypatch.context() as patch:
        for name in ("set_device", "max_memory_allocated", "reset_peak_memory_stats"):
            patch.setattr(torch.cuda, name, places.append)
        patch.setattr(torch.accelerator, "synchronize", places.append)
        for module in (torch.cuda, torch.accelerator):
            patch.setattr(module, "is_available", lambda: True)
        with pytest.raises(BackendError, match="does not fit the memory of cuda:1: use"):
            backend.load(llava_path)
        for act in (backend.reset_peak_memory, backend.synchronize, backend.peak_memory):
            act()
    assert places == [gpu] * 4
