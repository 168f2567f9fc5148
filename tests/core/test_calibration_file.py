"""The calibration file: written whole, read strictly, refused in one line."""

import json
from dataclasses import replace

import pytest

from mmspec.chat.calibration import calibration_file
from mmspec.chat.engine import load
from mmspec.decoding.exact_rows import ExactRows
from mmspec.draft_length.calibration_file import Calibration, CalibrationFile
from mmspec.ground.errors import WriteError
from support.scripted_clock import FLAT, STEEP


@pytest.fixture
def file(tmp_path):
    return CalibrationFile(tmp_path / "kept" / "costs.json", {"device": "cpu", "torch": "2.13"})


def test_what_is_written_is_read_again(file):
    assert file.read() == (Calibration(), "")
    file.write(FLAT.calibration())
    assert file.read() == (FLAT.calibration(), "")
    assert [each.name for each in file.path.parent.iterdir()] == [file.path.name]


def test_costs_of_another_key_are_not_used(file):
    file.write(FLAT.calibration())
    calibration, note = replace(file, key=file.key | {"torch": "2.14"}).read()
    assert calibration == Calibration()
    assert "another machine, backend or model" in note


BROKEN = {
    "empty": "",
    "cut": '{"format": 1, "key"',
    "other": {"key": {"format": 1}},
    "text": {"target": {"64": {"1": "fast"}}},
    "negative": {"target": {"64": {"1": -1.0}}},
    "nan": {"target": {"64": {"1": float("nan")}}},
    "huge": {"target": {"64": {"1": 10**400}}},
    "rows": {"target": {"64": {"0": 1.0}}},
    "context": {"target": {"short": {"1": 1.0}}},
    "many": {"draft": {"64": {"1": 1.0, "99": 1.0}}},
    "flat": {"target": 1.0},
    "deep": '{"a":' * 100_000,
    "bytes": b"\xff\xfe\x00",
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_or_older_file_is_ignored_with_one_line(file, name):
    file.write(FLAT.calibration())
    content = BROKEN[name]
    if isinstance(content, dict):
        content = json.dumps(json.loads(file.path.read_text()) | content)
    file.path.write_bytes(content if isinstance(content, bytes) else content.encode())
    calibration, note = file.read()
    assert calibration == Calibration()
    assert note.startswith("calibration not used")
    assert str(file.path) in note
    assert len(note.splitlines()) == 1


def test_a_write_that_fails_leaves_what_was_there(file, monkeypatch):
    file.write(FLAT.calibration())

    def fail(*_):
        raise OSError("no space left")

    with monkeypatch.context() as patched:
        patched.setattr("mmspec.ground.output_files.Path.replace", fail)
        with pytest.raises(WriteError, match="no space"):
            file.write(STEEP.calibration())
    assert file.read() == (FLAT.calibration(), "")
    assert list(file.path.parent.iterdir()) == [file.path]


def test_costs_belong_to_the_rows_that_they_were_measured_with(pair_engine, tmp_path, monkeypatch):
    """Also those that were kept before: their key names no rows."""
    monkeypatch.setenv("MMSPEC_CACHE", str(tmp_path))
    one, other = ExactRows(1, 8), ExactRows(8, 8)
    pair = pair_engine.backend, pair_engine.target, pair_engine.drafts
    files = {rows: calibration_file(*pair, rows) for rows in (None, one, other)}
    assert len({file.path for file in files.values()}) == 3
    files[None].write(FLAT.calibration())
    files[one].write(STEEP.calibration())
    engine = replace(pair_engine, calibrations={}, notes=[])
    assert engine.calibration(None) == FLAT.calibration()
    assert engine.calibration(one) == STEEP.calibration()
    assert engine.calibration(other) == Calibration()
    assert engine.notes == []
    older = {name: value for name, value in files[other].key.items() if name != "exact_rows"}
    replace(files[other], key=older).write(STEEP.calibration())
    again = replace(pair_engine, calibrations={}, notes=[])
    assert again.calibration(other) == again.calibration(other) == Calibration()
    [note] = again.notes
    assert "another machine" in note


def test_every_part_of_the_key_names_another_file(llama_path, pair_paths, monkeypatch):
    def path(target, draft=None, dtype="float32"):
        loaded = load(str(target), str(draft or "none"), backend="torch", dtype=dtype)
        return calibration_file(loaded.backend, loaded.target, loaded.drafts, None).path

    target, draft = pair_paths
    paths = [path(target), path(llama_path), path(target, draft), path(target, dtype="bfloat16")]
    assert path(target) == paths[0]
    monkeypatch.setattr("mmspec.chat.calibration.version", lambda _: "99.0")
    assert len({*paths, path(target)}) == 5
