"""Planning real files, and refusing broken ones by name."""

import json
import struct
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


def planned(path: Path) -> dict[str, TensorSource]:
    return plan(path, read_config(path))


def test_patches_as_wide_as_deep_are_told_apart_by_the_writer(tmp_path):
    torch_path = factory.tiny_llava(tmp_path / "torch", image_size=12, patch_size=3)
    mlx_path = factory.quantized(torch_path, tmp_path / "mlx", bits=0)
    assert planned(torch_path)[PATCHES].layout == "torch"
    assert planned(mlx_path)[PATCHES].layout == "mlx"
    assert not any(source.packing for source in planned(mlx_path).values())


UP = "language_model.model.layers.1.mlp.up_proj.weight"
LAST_NORM = "vision_tower.vision_model.post_layernorm.weight"
HEAD = "language_model.lm_head."


def zeros(*shape, dtype=np.uint32):
    return lambda _: np.zeros(shape, dtype)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        (UP, None, r"layers\.1\.mlp\.up_proj\.weight \[128, 64\] is missing$"),
        (UP, lambda t: t[UP].T.copy(), r"up_proj.* is \[64, 128\], expected \[128, 64"),
        (UP, lambda t: t[UP].astype(np.float64), "up_proj.weight is F64, not F32"),
        (LAST_NORM, lambda t: t[LAST_NORM][:3], r"post_layernorm.*\[3\], expected"),
        (UP.replace("weight", "scales"), lambda t: t[UP], "has no quantization"),
        ("lm_head.weight", lambda t: t[UP], "lm_head.weight .*the same tensor twice"),
        (f"{HEAD}weight", zeros(320, 9), r"lm_head.weight is \[320, 9\], expected \[320, 8"),
        (f"{HEAD}scales", zeros(320, 2, dtype=np.float32), r"lm_head.scales is \[320, 2\], expect"),
        (f"{HEAD}biases", zeros(320, 1), "lm_head.biases is U32"),
        (f"{HEAD}weight", zeros(320, 8, dtype=np.float32), "lm_head.weight is F32 with scales"),
        (f"{HEAD}biases", None, "lm_head.weight has scales but no biases"),
    ],
)
def test_misfits_are_named(tmp_path, llava_path, mlx_path, name, value, message):
    source = mlx_path if name.startswith(HEAD) else llava_path
    path = copytree(source, tmp_path / "broken")
    tensors = load_file(path / "model.safetensors")
    kept = {other: tensor for other, tensor in tensors.items() if other != name}
    save_file(kept | ({name: value(tensors)} if value else {}), path / "model.safetensors")
    with pytest.raises(CheckpointError, match=message) as caught:
        planned(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_only_the_indexed_shards_are_read(tmp_path):
    path = factory.tiny_llama(tmp_path / "model", sharded=True)
    (path / "consolidated.safetensors").write_bytes(b"not read")
    planned(path)
    (path / "model-00002-of-00002.safetensors").unlink()
    with pytest.raises(CheckpointError, match=r"model-00002-of-00002\.safetensors is missing"):
        planned(path)


@pytest.mark.parametrize("shard", ["../model.safetensors", "/etc/passwd", "..", "", "a\nb", 3])
def test_an_index_cannot_point_elsewhere(tmp_path, shard):
    path = factory.tiny_llama(tmp_path / "model", sharded=True)
    index = path / "model.safetensors.index.json"
    content = json.loads(index.read_text())
    content["weight_map"]["lm_head.weight"] = shard
    index.write_text(json.dumps(content))
    with pytest.raises(CheckpointError, match=r"weight_map\.lm_head\.weight is .*, but must be"):
        planned(path)


@pytest.mark.parametrize("name", ["pytorch_model.bin", "model.pt", "model.ckpt"])
def test_pickles_are_never_opened(tmp_path, llama_path, name):
    (tmp_path / "config.json").write_bytes((llama_path / "config.json").read_bytes())
    with pytest.raises(CheckpointError, match=r"has no weights: expected model\.safetensors"):
        planned(tmp_path)
    (tmp_path / name).write_bytes(b"cos\nsystem\n(S'false'\ntR.")
    with pytest.raises(CheckpointError, match=f"{name}.*nothing was executed.*safetensors"):
        planned(tmp_path)


def raw(header: object, data: bytes = b"") -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def entry(start: int = 0, end: int = 8, dtype: str = "F32", shape: object = (2,)) -> object:
    return {"dtype": dtype, "shape": shape, "data_offsets": [start, end]}


REPEATED = ("{" + "".join(f'"{n}":0,' for n in range(200_000)) + '"x":0,"x":0}').encode()
"""A header in which counting each name for itself would take an hour."""


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "truncated or not a safetensors file: 0 bytes"),
        (struct.pack("<Q", 2**63) + b"{}", "header of 9223372036854775808 bytes"),
        (b"version https://git-lfs.github.com/spec/v1\n", "a Git LFS pointer"),
        (raw(b"{nonsense"), "header is not JSON"),
        (raw({"a\nb": entry()}), r'header .*"a\\nb": .* but must be .* each key'),
        (raw({"a": entry(shape=[-2])}, bytes(8)), r"header a.shape\[0\] is -2"),
        (raw({"a": entry(shape=[3])}, bytes(8)), "a takes 8 bytes, but F32 .* needs 12"),
        (raw({"a": entry()}, bytes(5)), "truncated or overlong"),
        (raw({"a": entry(4, 12)}, bytes(12)), "overlaps another tensor or leaves a gap"),
        (raw({"a": entry(), "b": entry(4, 12)}, bytes(12)), "b overlaps another"),
        (raw({"a": entry(-8, 0)}, bytes(8)), r"header a.data_offsets\[0\] is -8"),
        (raw(REPEATED), 'not JSON: "x" is there twice'),
    ],
)
def test_broken_files_are_named(tmp_path, llama_path, content, message):
    (tmp_path / "config.json").write_bytes((llama_path / "config.json").read_bytes())
    (tmp_path / "model.safetensors").write_bytes(content)
    with pytest.raises(CheckpointError, match=message) as caught:
        planned(tmp_path)
    assert "model.safetensors" in str(caught.value)
