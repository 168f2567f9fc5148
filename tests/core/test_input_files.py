"""What is no file is refused in place of one, at once."""

import json
import os
import re
import socket
from pathlib import Path

import pytest

from mmspec.checkpoints.safetensors_file import read_header
from mmspec.ground.errors import CheckpointError, MmspecError
from mmspec.ground.input_files import is_there, open_file
from mmspec.ground.json_file import JSON_BYTES, read_json, read_lines
from mmspec.prompt.chat_template import load_template
from mmspec.prompt.images import open_picture
from mmspec.prompt.tokenizer import Tokenizer
from mmspec_bench.suite.rows import read_rows


def pipe(path: Path) -> None:
    os.mkfifo(path)


def bound_socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as opened:
        opened.bind(str(path))


IMPOSTORS = {
    "a directory": Path.mkdir,
    "a named pipe": pipe,
    "a device": lambda path: path.symlink_to("/dev/zero"),
    "a socket": bound_socket,
}
READERS = {
    "config.json": read_json,
    "captions.jsonl": read_lines,
    "rows.jsonl": read_rows,
    "model.safetensors": read_header,
    "tokenizer.json": lambda file: Tokenizer.read(file.parent),
    "tokenizer_config.json": lambda file: load_template(file.parent),
    "chat_template.jinja": lambda file: load_template(file.parent),
}


@pytest.mark.parametrize("kind", IMPOSTORS)
@pytest.mark.parametrize("name", READERS)
def test_what_is_no_file_is_refused(tmp_path, monkeypatch, kind, name):
    monkeypatch.chdir(tmp_path)  # the path of a socket is short
    IMPOSTORS[kind](Path(name))
    with pytest.raises(MmspecError, match=f"^cannot read .*{name}: it is {kind}, not a file$"):
        READERS[name](tmp_path / name)


def test_a_name_that_no_file_can_have_is_not_there(tmp_path):
    assert is_there(tmp_path)
    for name in ("a" * 300, "a\0b", "missing"):
        assert not is_there(tmp_path / name)
        with pytest.raises(OSError, match=r"."):
            open_file(tmp_path / name)


def test_a_large_json_file_is_not_read(tmp_path):
    file = tmp_path / "config.json"
    file.write_text(json.dumps({"a": "x" * JSON_BYTES}))
    with pytest.raises(CheckpointError, match=r"config\.json: it has 16,000,009 bytes"):
        read_json(file)


POINTER = "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n"


@pytest.mark.parametrize("name", ["config.json", "model.safetensors", "tokenizer.json", "a.png"])
def test_a_pointer_of_git_lfs_is_named_as_such(tmp_path, name):
    read = {
        "config.json": read_json,
        "model.safetensors": read_header,
        "tokenizer.json": lambda file: Tokenizer.read(file.parent),
        "a.png": open_picture,
    }[name]
    (tmp_path / name).write_text(POINTER)
    with pytest.raises(MmspecError, match=rf"{re.escape(name)}.*Git LFS pointer.*`git lfs pull`"):
        read(tmp_path / name)
