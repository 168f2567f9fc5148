"""The calibration file: written whole, read strictly, refused in one line."""

import json
from dataclasses import replace

import pytest

from mmspec.chat.calibration import calibration_file
from mmspec.chat.engine import load
from mmspec.draft_length.calibration_file import Calibration, CalibrationFile
from support.scripted_clock import FLAT


@pytest.fixture
def file(tmp_path):
    return CalibrationFile(tmp_path / "kept" / "costs.json", {"device": "cpu", "torch": "2.13"})


def test_costs_of_another_key_are_not_used(file):
    assert file.read() == (Calibration(), "")
    file.write(FLAT.calibration())
    assert file.read() == (FLAT.calibration(), "")
    calibration, note = replace(file, key=file.key | {"torch": "2.14"}).read()
    assert calibration == Calibration()
    assert "another machine, backend or model" in note


BROKEN = {
    "cut": '{"format": 1, "key"',
    "other": {"key": {"format": 1}},
    "text": {"target": {"64": {"1": "fast"}}},
    "huge": {"target": {"64": {"1": 10**400}}},
    "context": {"target": {"short": {"1": 1.0}}},
    "many": {"draft": {"64": {"1": 1.0, "99": 1.0}}},
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


def test_every_part_of_the_key_names_another_file(llama_path, pair_paths, monkeypatch):
    def path(target, draft=None, dtype="float32"):
        loaded = load(str(target), str(draft or "none"), backend="torch", dtype=dtype)
        return calibration_file(loaded.backend, loaded.target, loaded.drafts, None).path

    target, draft = pair_paths
    paths = [path(target), path(llama_path), path(target, draft), path(target, dtype="bfloat16")]
    assert path(target) == paths[0]
    monkeypatch.setattr("mmspec.chat.calibration.version", lambda _: "99.0")
    assert len({*paths, path(target)}) == 5
