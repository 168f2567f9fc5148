"""`mmspec calibrate`, and what a later command makes of it, on real tiny checkpoints."""

import json

import pytest

from mmspec.chat.engine import load
from mmspec.chat.options import Options
from mmspec.decoding.exact_rows import ExactRows
from mmspec.draft_length import calibration_file
from mmspec.draft_length.calibration_file import ROWS
from mmspec_bench.measure import steadiness


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("MMSPEC_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(calibration_file, "PLAUSIBLE", 0.0)  # other tests keep this machine busy
    monkeypatch.setattr(steadiness, "LEAST_SHARE", 0.0)
    monkeypatch.setattr(steadiness, "MOST_RATIO", 1e9)
    return tmp_path / "cache"


@pytest.fixture
def models(models, measure_once, monkeypatch):
    """A pair that is measured once for all tests."""
    monkeypatch.setattr("mmspec_cli.calibrate.measure", measure_once)
    return models


def test_costs_are_shown_written_and_read_again(run, models, cache):
    result = run("calibrate", *models)
    assert result.status == 0
    assert "target rows" in result.out
    assert "draft branches" in result.out
    [file] = (cache / "calibration").iterdir()
    assert result.out.splitlines()[-1] == f"written to {file}"
    engine = load(models[1], models[3], backend="torch")
    costs = engine.calibration(None)
    assert [list(curve) for curve in costs.target.values()] == [list(ROWS)] * 3
    for curves in (costs.draft, costs.level):
        assert [list(curve) for curve in curves.values()] == [[1, 2, 3, 4]] * 3
    assert engine.notes == []


def test_exact_forwards_have_costs_of_their_own(run, models, cache, monkeypatch):
    rows = ExactRows(8, 8)
    monkeypatch.setattr("mmspec.exactness.finding.find_exact_rows", lambda _: rows)
    told = json.loads(run("calibrate", *models, "--exact", "on", "--json").out)
    assert (told["exact"], told["exact_mode"]) == (True, "on")
    assert told["exact_rows"] == told["key"]["exact_rows"] == {"multiple": 8, "most": 8}
    engine = load(models[1], models[3], backend="torch", options=Options(exact="on"))
    assert engine.calibrations.keys() == {rows}
    assert engine.calibration(rows).target
    assert not engine.calibration(None).target
    told = json.loads(run("calibrate", *models, "--json").out)
    assert (told["exact"], told["exact_mode"], told["exact_rows"]) == (False, "auto", None)
    assert told["key"]["exact_rows"] is None
    assert len([*(cache / "calibration").iterdir()]) == 2


@pytest.mark.parametrize(("mode", "reason"), [("on", "--exact on: "), ("maybe", "'maybe'")])
def test_what_cannot_be_decoded_exactly_is_not_measured(
    run, models, cache, monkeypatch, mode, reason
):
    monkeypatch.setattr("mmspec.exactness.finding.find_exact_rows", lambda _: None)
    result = run("calibrate", *models, "--exact", mode)
    assert (result.status, len(result.err.splitlines())) == (2, 1)
    assert reason in result.err
    assert not [*cache.glob("calibration/*")]


def test_a_broken_file_is_one_line_and_no_obstacle(run, models, cache):
    run("calibrate", *models)
    [file] = (cache / "calibration").iterdir()
    file.write_text("{")
    few = *models, "--max-new-tokens", "4", "--gamma", "auto"
    notes = json.loads(run("generate", "--prompt", "Hello?", *few, "--json").out)["notes"]
    assert [str(file) in note for note in notes if "calibration" in note] == [True]


def test_where_nothing_can_be_written_it_is_shown_all_the_same(run, models, cache):
    cache.write_text("a file where a folder should be")
    result = run("calibrate", *models)
    assert result.status == 1
    assert "target rows" in result.out
    assert any(line.startswith("not written") for line in result.err.splitlines())


def test_a_machine_that_is_busy_already_is_refused_at_once(run, models, monkeypatch):
    monkeypatch.setattr(steadiness, "LEAST_SHARE", 1000.0)
    monkeypatch.delattr("mmspec_cli.calibrate.measure")
    result = run("calibrate", *models)
    assert (result.status, result.out) == (1, "")
    assert result.err.startswith("not measured: the machine is busy: ")
    assert "fewer --threads" in result.err
    told = json.loads(run("calibrate", *models, "--json").out)
    assert told["file"] is None
    assert "other programs had the processor" in told["problem"]
