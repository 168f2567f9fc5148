"""Planning real files in every layout, and refusing broken ones by name."""

import json
from collections.abc import Callable
from pathlib import Path
from shutil import copytree

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from mmspec.checkpoints.config import read_config
from mmspec.checkpoints.loading_plan import TensorSource, plan
from mmspec.families.llava import PATCHES
from mmspec.ground.errors import CheckpointError
from support import factory

DTYPES = {"F32": np.float32, "U32": np.uint32}


def planned(path: Path) -> dict[str, TensorSource]:
    return plan(path, read_config(path))


def values(source: TensorSource) -> np.ndarray:
    """Read the bytes that the plan points at."""
    stored = source.stored
    with stored.file.open("rb") as stream:
        stream.seek(stored.start)
        data = stream.read(stored.end - stored.start)
    return np.frombuffer(data, DTYPES[stored.dtype]).reshape(stored.shape)


def test_layouts_agree_with_transformers(tmp_path):
    from transformers import LlavaForConditionalGeneration

    hub = factory.tiny_llava(tmp_path / "hub", sharded=True)
    today = factory.tiny_llava(tmp_path / "today", layout="transformers")
    model = LlavaForConditionalGeneration.from_pretrained(hub)
    weights = {name.removeprefix("model."): value for name, value in model.named_parameters()}
    for path in (hub, today):
        for name, source in planned(path).items():
            np.testing.assert_array_equal(values(source), weights[name].detach().numpy())


def test_patches_as_wide_as_deep_are_told_apart_by_the_writer(tmp_path):
    torch_path = factory.tiny_llava(tmp_path / "torch", image_size=12, patch_size=3)
    mlx_path = factory.quantized(torch_path, tmp_path / "mlx", bits=0)
    assert planned(torch_path)[PATCHES].layout == "torch"
    assert planned(mlx_path)[PATCHES].layout == "mlx"
    assert not any(source.packing for source in planned(mlx_path).values())


def edited(source: Path, path: Path, edit: Callable[[dict[str, np.ndarray]], object]) -> Path:
    """Copy a checkpoint with its tensors changed by `edit`."""
    copytree(source, path)
    tensors = load_file(path / "model.safetensors")
    edit(tensors)
    save_file(tensors, path / "model.safetensors")
    return path


UP = "language_model.model.layers.1.mlp.up_proj.weight"
LAST_NORM = "vision_tower.vision_model.post_layernorm.weight"


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (lambda t: t.pop(UP), r"layers\.1\.mlp\.up_proj\.weight \[128, 64\] is missing$"),
        (lambda t: t.update({UP: t[UP].T.copy()}), r"up_proj.* is \[64, 128\], expected \[128, 64"),
        (lambda t: t.update({UP: t[UP].astype(np.float64)}), "up_proj.weight is F64, not F32"),
        (lambda t: t.update({LAST_NORM: t[LAST_NORM][:3]}), r"post_layernorm.*\[3\], expected"),
        (lambda t: t.update({UP.replace("weight", "scales"): t[UP]}), "has no quantization"),
        (
            lambda t: [t.pop(name) for name in list(t) if "self_attn.q" in name],
            r"is missing \(and 5 more\)$",
        ),
        (lambda t: t.update({"lm_head.weight": t[UP]}), "lm_head.weight .*the same tensor twice"),
    ],
)
def test_misfits_are_named(tmp_path, llava_path, edit, message):
    path = edited(llava_path, tmp_path / "broken", edit)
    with pytest.raises(CheckpointError, match=message) as caught:
        planned(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("part", "value", "message"),
    [
        (
            "weight",
            np.zeros((320, 9), np.uint32),
            r"lm_head.weight is \[320, 9\], expected \[320, 8",
        ),
        ("scales", np.zeros((320, 2), np.float32), r"lm_head.scales is \[320, 2\], expected"),
        ("biases", np.zeros((320, 1), np.uint32), "lm_head.biases is U32"),
        ("weight", np.zeros((320, 8), np.float32), "lm_head.weight is F32 with scales"),
        ("biases", None, "lm_head.weight has scales but no biases"),
    ],
)
def test_packed_misfits_are_named(tmp_path, mlx_path, part, value, message):
    def edit(tensors: dict[str, np.ndarray]) -> None:
        name = f"language_model.lm_head.{part}"
        del tensors[name]
        if value is not None:
            tensors[name] = value

    with pytest.raises(CheckpointError, match=message):
        planned(edited(mlx_path, tmp_path / "broken", edit))


def test_only_the_indexed_shards_are_read(tmp_path):
    path = factory.tiny_llama(tmp_path / "model", sharded=True)
    (path / "consolidated.safetensors").write_bytes(b"not read")
    planned(path)
    (path / "model-00002-of-00002.safetensors").unlink()
    with pytest.raises(
        CheckpointError, match=r"shard model-00002-of-00002\.safetensors is missing"
    ):
        planned(path)


@pytest.mark.parametrize("shard", ["../model.safetensors", "/etc/passwd", "..", "", "a\nb", 3])
def test_an_index_cannot_point_elsewhere(tmp_path, shard):
    path = factory.tiny_llama(tmp_path / "model", sharded=True)
    index = path / "model.safetensors.index.json"
    content = json.loads(index.read_text())
    content["weight_map"]["lm_head.weight"] = shard
    index.write_text(json.dumps(content))
    with pytest.raises(
        CheckpointError,
        match=r"weight_map\.lm_head\.weight is .*, but must be (the name of a file|a text)",
    ):
        planned(path)


@pytest.mark.parametrize("name", ["pytorch_model.bin", "model.pt", "model.ckpt"])
def test_pickles_are_never_opened(tmp_path, llama_path, name):
    (tmp_path / "config.json").write_bytes((llama_path / "config.json").read_bytes())
    with pytest.raises(CheckpointError, match=r"has no weights: expected model\.safetensors"):
        planned(tmp_path)
    (tmp_path / name).write_bytes(b"cos\nsystem\n(S'false'\ntR.")
    with pytest.raises(CheckpointError, match=f"{name}.*nothing was executed.*safetensors"):
        planned(tmp_path)
