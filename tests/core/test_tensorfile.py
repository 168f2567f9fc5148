"""Broken tensor files are named; where the library refuses one, so do we."""

import json
import struct

import pytest
from test_checkpoint import planned

from mmspec.ground.errors import CheckpointError


def raw(header: object, data: bytes = b"") -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def entry(start: int = 0, end: int = 8, dtype: str = "F32", shape: object = (2,)) -> object:
    return {"dtype": dtype, "shape": shape, "data_offsets": [start, end]}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "truncated or not a safetensors file: 0 bytes"),
        (struct.pack("<Q", 2**63) + b"{}", "header of 9223372036854775808 bytes"),
        (b"version https://git-lfs.github.com/spec/v1\n", "a Git LFS pointer"),
        (raw(b"{nonsense"), "header is not JSON"),
        (raw(b"[" * 100_000), "header is not JSON"),
        (raw({"a\nb": entry()}), r'header .*"a\\nb": .* but must be .* each key'),
        (raw({"a": 3}), "in the safetensors header a is 3, but must be an object"),
        (raw({"a": entry(shape=[-2])}, bytes(8)), r"header a.shape\[0\] is -2"),
        (raw({"a": entry(shape=[3])}, bytes(8)), "a takes 8 bytes, but F32 .* needs 12"),
        (raw({"a": entry()}, bytes(5)), "truncated or overlong"),
        (raw({"a": entry(4, 12)}, bytes(12)), "overlaps another tensor or leaves a gap"),
        (raw({"a": entry(), "b": entry(4, 12)}, bytes(12)), "b overlaps another"),
        (raw({"a": entry(-8, 0)}, bytes(8)), r"header a.data_offsets\[0\] is -8"),
        (b"\x0e\0\0\0\0\0\0\0" + b'{"a":1,"a": 2}', 'not JSON: "a" is there twice'),
    ],
)
def test_broken_files_are_named(tmp_path, llama_path, content, message):
    (tmp_path / "config.json").write_bytes((llama_path / "config.json").read_bytes())
    (tmp_path / "model.safetensors").write_bytes(content)
    with pytest.raises(CheckpointError, match=message) as caught:
        planned(tmp_path)
    assert "model.safetensors" in str(caught.value)
