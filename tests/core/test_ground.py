"""JSON values, files that are none, control characters, and a cache of the latest values."""

import json
import os
import re
import socket
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, TypedDict
from unicodedata import category

import pytest

from mmspec.checkpoints.safetensors_file import read_header
from mmspec.ground.errors import CheckpointError, MmspecError
from mmspec.ground.escape import one_line, visible
from mmspec.ground.input_files import is_there, open_file
from mmspec.ground.json_file import JSON_BYTES, Length, Matches, Range, read_json, read_lines
from mmspec.ground.json_reader import MismatchError, parse_json, read_value
from mmspec.ground.latest_values import LatestValues
from mmspec.prompt.chat_template import load_template
from mmspec.prompt.images import open_picture
from mmspec.prompt.tokenizer import Tokenizer
from mmspec_bench.suite.rows import read_rows


class Step(NamedTuple):
    count: Annotated[int, Range(0, 9)]
    seconds: Annotated[float, Range(0, 1e9)]
    levels: int | None = None


class Place(TypedDict):
    file: str


@dataclass(frozen=True)
class Whole:
    name: Annotated[str, Length(1, 5)]
    flag: bool
    steps: list[Step]
    ids: tuple[int, ...] | None
    costs: Mapping[Annotated[int, Range(1, 8)], float]
    shard: Annotated[str, Matches("[0-9]/[0-9]")]
    place: Place
    kind: Literal["stop", "length"] = "stop"
    notes: list[str] = field(default_factory=list)
    other: Any = None


GOOD = {
    "name": "é",
    "flag": True,
    "steps": [[1, 2], [0, 0.5, 3]],
    "ids": [1, 2],
    "costs": {"1": 1, "8": 0.5},
    "shard": "1/2",
    "place": {"file": "a"},
}


def test_what_is_described_is_read():
    read = read_value(Whole, parse_json(json.dumps(GOOD)) | {"unknown": 1})
    steps = [Step(1, 2.0), Step(0, 0.5, 3)]
    costs = {1: 1.0, 8: 0.5}
    assert read == Whole("é", True, steps, (1, 2), costs, "1/2", {"file": "a"})
    assert read_value(Whole, GOOD | {"ids": None}).ids is None
    assert type(read.steps[0].seconds) is float


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"name": ""}, 'name is "", but must be a text of length >= 1'),
        ({"flag": 1}, "flag is 1, but must be true or false"),
        ({"steps": [[0, 0], [10, 0]]}, "steps[1][0] is 10, but must be an integer <= 9"),
        ({"steps": [[1]]}, "steps[0] is [1], but must be a list of length 2 to 3"),
        ({"steps": [[1, float("nan")]]}, "steps[0][1] is NaN, but must be a number"),
        ({"steps": [[1, 10**400]]}, "steps[0][1] is 1000"),
        ({"ids": [1, None]}, "ids[1] is null, but must be an integer"),
        ({"costs": {"9": 1}}, 'costs is {"9": 1}, but must be an object with each key an integer'),
        ({"costs": {"1": 1, "2": "x"}}, 'costs is {"1": 1, "2": "x"}, but must be an object with'),
        ({"shard": "1/22"}, 'shard is "1/22", but must be a text matching regex'),
        ({"shard": "1/2\n"}, 'shard is "1/2\\n"'),
        ({"place": {}}, "place.file is missing, but must be there"),
        ({"notes": ["a", 3]}, "notes[1] is 3, but must be a text"),
    ],
)  # fmt: skip
def test_what_is_not_is_refused_by_its_place(change, message):
    with pytest.raises(MismatchError) as error:
        read_value(Whole, GOOD | change)
    assert str(error.value).startswith(message)


@pytest.mark.parametrize("text", ["[NaN]", "[Infinity]", "[1e400]", r'["\ud800"]', "[" * 99_999])
def test_text_that_no_value_stands_for_is_refused(text):
    with pytest.raises(ValueError, match=r"malformed|truncated|range|nested"):
        parse_json(text)


def bound_socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as opened:
        opened.bind(str(path))


IMPOSTORS = {
    "a directory": Path.mkdir,
    "a named pipe": os.mkfifo,
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
    (tmp_path / name).write_text(POINTER)
    with pytest.raises(MmspecError, match=rf"{re.escape(name)}.*Git LFS pointer.*`git lfs pull`"):
        READERS.get(name, open_picture)(tmp_path / name)


def test_no_control_character_passes_but_newline_and_tab():
    passed = [c for c in visible("".join(map(chr, range(0x3000)))) if category(c) == "Cc"]
    assert set(passed) == {"\n", "\t"}
    assert visible("a\x1b[31mb\rc\x07\x9b\u202e") == r"a^[[31mb^Mc^G\x9b\u202e"
    assert one_line(" a\n\tb\x1b  ") == "a b^["


def test_a_value_is_computed_once_while_it_is_among_the_latest():
    computed: list[str] = []
    values = LatestValues[str](2)

    def get(key):
        return values.get(key, lambda: computed.append(key) or key.upper())

    assert [get(key) for key in "abacab"] == list("ABACAB")
    assert computed == list("abcb")  # c came when b was used less recently than a
    values.clear()
    assert get("a") == "A"
    assert computed == list("abcba")


def test_values_are_dropped_by_size_and_the_newest_stays():
    values = LatestValues[str](5, len)
    for value in ("aa", "bbb", "aa", "cc"):
        values.get(value, lambda value=value: value)
    assert values.get("aa", lambda: "computed again") == "aa"
    assert values.get("cc", lambda: "computed again") == "cc"
    values.get("larger", lambda: "larger")
    assert values.get("larger", lambda: "computed again") == "larger"
    assert values.get("cc", lambda: "dd") == "dd"
