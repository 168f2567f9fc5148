"""Checkpoints in every format, devices, types, and what cannot be had."""

from dataclasses import replace

import mlx.core as mx
import numpy as np
import pytest
import torch

from mmspec.checkpoints.config import ModelConfig, read_config
from mmspec.checkpoints.loading_plan import plan
from mmspec.checkpoints.manifest import hub_name
from mmspec.decoding.contract import Segment
from mmspec.decoding.sampling import GREEDY
from mmspec.families.decoder import TextConfig
from mmspec.families.known import FAMILIES
from mmspec.families.llava import LlavaVision
from mmspec.ground.errors import CheckpointError, UsageError
from mmspec_torch.backend import TorchBackend
from mmspec_torch.device.weights import read_tensor
from mmspec_torch.model import TorchModel
from support import factory
from support import sequence_helpers as helpers
from support.meta_weights import meta_weights

LLAVA_7B = ModelConfig(
    family=FAMILIES["llava"],
    text=TextConfig(4096, 11008, 32, 32, 32, 128, 32064, 4096, 1e-5, 1e4, False),
    vision=LlavaVision(1024, 4096, 24, 16, 336, 14),
    image_token_id=32000,
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
LLAMA_68M = replace(LVLM_68M, family=FAMILIES["llama"], vision=None, image_token_id=None)
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


def untaken_tensors(config: ModelConfig) -> list[str]:
    """Build and run a model on the meta device; returns the manifest's tensors it does not use.

    Raises KeyError for a tensor that is missing in the manifest, RuntimeError for a wrong shape.
    """
    weights = meta_weights(config)
    model = TorchModel(weights, config, torch.device("meta"), torch.float32)
    drafter = model.open_branches(1, config.text.vocab_size, GREEDY)
    drafter.extend([prompt_of(model, config)])
    helpers.draft(drafter, 1, 1.0)
    return weights.left


def prompt_of(model: TorchModel, config: ModelConfig) -> Segment:
    if config.vision is None:
        return Segment([[0, 0]])
    size = config.vision.image_size
    image = model.encode(np.zeros((config.vision.num_channels, size, size), np.float32))
    return Segment([image, [0]])


@pytest.mark.parametrize("config", FULL_SIZES.values(), ids=FULL_SIZES)
def test_the_modules_use_exactly_the_manifest_at_full_size(config):
    assert untaken_tensors(config) == []


def test_a_manifest_of_another_size_does_not_pass(monkeypatch):
    from support import meta_weights as weights

    wrong = replace(LLAMA_68M, text=replace(LLAMA_68M.text, num_key_value_heads=6))
    shapes = weights.manifest(wrong)
    monkeypatch.setattr(weights, "manifest", lambda config: shapes)
    with pytest.raises(RuntimeError):
        untaken_tensors(LLAMA_68M)


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize(("bits", "group"), [(2, 64), (3, 64), (4, 32), (5, 32), (6, 64), (8, 64)])
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


def test_a_device_that_is_not_there_is_named_with_those_that_are(llava_path):
    with pytest.raises(UsageError, match=r"'cpu:1'.* 1 cpu"):
        TorchBackend().load(llava_path, device="cpu:1")


def test_a_file_cut_after_its_header_was_read_is_named(tmp_path):
    path = factory.tiny_llama(tmp_path / "a")
    sources = plan(path, read_config(path))
    file = path / "model.safetensors"
    file.write_bytes(file.read_bytes()[:-100])
    last = max(sources.values(), key=lambda source: source.stored.end)
    with pytest.raises(CheckpointError, match=r"model\.safetensors ends inside"):
        read_tensor(last, torch.float32)
