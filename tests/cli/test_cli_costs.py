"""`check`, `bench speed` and `calibrate`: their output, their files and their exit statuses."""

import json
import re
from dataclasses import replace

import pytest

from mmspec.chat import plugins
from mmspec.chat.engine import load
from mmspec.chat.options import Options
from mmspec.decoding.exact_rows import ExactRows
from mmspec.diagnostics import check as core_check
from mmspec.draft_length.calibration_file import ROWS
from mmspec_bench.measure import calibrate, steadiness
from mmspec_terminal.render import Screen
from support import factory


def test_check_says_identical(run, pair, red):
    asked = "check", red, "--prompt", "What is it?", *pair, "--drafting", "MTC"
    result = run(*asked)
    assert result.status == 0
    assert result.out.splitlines()[-1].startswith("identical (torch, cpu, float32;")
    assert json.loads(run(*asked, "--json").out)["gamma"] == 5


@pytest.mark.parametrize(("shortfall", "status", "word"), [(5e-5, 3, "near-tie"), (2.0, 1, "bug")])
def test_check_shows_where_answers_part(run, pair, monkeypatch, shortfall, status, word):
    original = core_check.compare

    def parted(engine, prompt, options, threshold):
        found = core_check.Divergence(3, 70, 71, ("a", "\x1b[31m"), shortfall, shortfall)
        same = original(engine, prompt, options, threshold)
        return replace(same, outcome=found.outcome(threshold), divergence=found)

    monkeypatch.setattr(core_check, "compare", parted)
    result = run("check", "--prompt", "Hello?", *pair)
    assert result.status == status
    assert f"{word} at token 3" in result.out
    assert "top-2 logit gap" in result.out
    assert "\x1b" not in result.out


def test_backends_agree_within_stated_limits(run, llava_path, tmp_path, red):
    prompts = tmp_path / "prompts.jsonl"
    prompts.write_text(json.dumps({"prompt": "What?", "images": [red.name]}))
    options = "--model", llava_path, "--prompts", prompts, "--max-new-tokens", "4"
    result = run("check", "--across", "torch,mlx", "--stages", *options)
    assert result.status == 0
    assert "identical" in result.out
    assert "relative differences up to 0.0001" in result.out
    told = json.loads(run("check", "--across", "torch,mlx", "--stages", *options, "--json").out)
    assert told["port"]["mlx"][0]["stage"] == "pixels"
    ordinary = {"exact": False, "exact_mode": "auto", "exact_rows": None}
    assert told["decoding"] == {"torch": ordinary, "mlx": ordinary}


def test_across_names_a_backend_that_is_not_installed(run, llava_path, monkeypatch):
    monkeypatch.setattr(plugins, "find_spec", lambda name: name != "mlx" or None)
    result = run("check", "--across", "torch,mlx", "--model", llava_path)
    assert result.status == 2
    assert 'pip install "mmspec[mlx]"' in result.err
    assert len(result.err.splitlines()) == 1


def test_speed_prints_a_table_and_writes_json(run, pair, tmp_path):
    out = tmp_path / "speed.json"
    words = "--drafting", "M,none,M", "--gammas", "2,auto,2", "--repeats", "1", "--count", "1"
    result = run("bench", "speed", *pair, *words, "--out", out)
    assert result.status == 0
    assert "M gamma 2" in result.out
    told = json.loads(out.read_text())
    plain, fixed, adaptive = told["methods"]
    names = [method["name"] for method in told["methods"]]
    assert names == ["plain", "M gamma 2", "M gamma auto"]
    assert (plain["tokens_per_round"], plain["acceptance_rate"]) == (1.0, 0.0)
    assert fixed["tokens_per_round"] > 1
    assert fixed["identical"] == adaptive["identical"] == adaptive["answers"] == 1
    assert (told["exact"], told["exact_mode"], told["exact_rows"]) == (False, "auto", None)
    assert told["provenance"]["versions"]["torch"]


FIRST = "--repeats", "1", "--count", "1", "--gammas", "2", "--drafting", "M"
PROBING = {
    "run": ("bench", "run", "--methods", "none", "--tasks", "chart", "--limit", "1"),
    "speed": ("bench", "speed", *FIRST),
    "across": ("check", "--across", "torch,mlx"),
    "calibrate": ("calibrate",),
}


@pytest.mark.parametrize("name", PROBING)
def test_a_probe_is_shown_while_it_goes_on(run, pair_paths, tmp_path, monkeypatch, name):
    shown = []

    def stop(*_):
        raise KeyboardInterrupt

    monkeypatch.setenv("MMSPEC_CACHE", str(tmp_path))
    monkeypatch.setattr("mmspec.exactness.finding.price_of", stop)
    monkeypatch.setattr("mmspec_cli.calibrate.busy_already", lambda: "")
    monkeypatch.setattr(Screen, "progress", lambda _, text: shown.append(text))
    target, draft = pair_paths
    out = ("--out", tmp_path / "out") if name == "run" else ()
    exact = () if name == "calibrate" else ("--exact", "on")
    assert run(*PROBING[name], "--model", target, "--draft", draft, *exact, *out).status == 130
    assert shown[-1].startswith("measuring once whether this machine can decode")


def test_a_pipe_shows_a_probe_too_and_json_is_not_disturbed(run, models, monkeypatch):
    def stop(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("mmspec.exactness.finding.find_exact_rows", stop)
    shown = run("generate", "--prompt", "one", *models, "--exact", "on", "--json")
    assert re.search(r"measuring once .*: about \d+ s; --exact off decodes at once", shown.err)
    assert not shown.out


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("MMSPEC_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(calibrate, "PLAUSIBLE", 0.0)  # other tests keep this machine busy
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
    few = "--gamma", "auto", "--max-new-tokens", "4"
    told = json.loads(run("generate", "--prompt", "Hello?", *models, *few, "--json").out)
    assert not [note for note in told["notes"] if "calibration" in note]


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
    lines = [line for line in result.err.splitlines() if "measuring once" not in line]
    assert (result.status, len(lines)) == (2, 1)
    assert reason in lines[0]
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


def test_a_model_with_too_few_positions_is_not_calibrated(run, tmp_path):
    target, draft = factory.tiny_pair(tmp_path, positions=61)
    result = run("calibrate", "--model", str(target), "--draft", str(draft), "--backend", "torch")
    assert result.status == 2
    assert "has 61 positions, and calibrate needs 62 or more" in result.err
