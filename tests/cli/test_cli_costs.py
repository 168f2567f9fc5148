"""`check`, `bench speed` and `calibrate`: their output, their files and their exit statuses."""

import json
import re
from dataclasses import replace
from unittest.mock import Mock

import pytest

from mmspec.chat import plugins
from mmspec.chat.engine import load
from mmspec.chat.options import Options
from mmspec.decoding.exact_rows import ExactRows
from mmspec.diagnostics import check as core_check
from mmspec.draft_length.calibration_file import ROWS
from mmspec_bench.measure import calibrate, steadiness
from support import factory


def test_check_says_identical(run, pair, red):
    asked = "check", red, "--prompt", "What is it?", *pair, "--drafting", "MTC"
    assert run(*asked).out.splitlines()[-1].startswith("identical (torch, cpu, float32;")
    told = run(*asked, "--json")
    assert (told.status, json.loads(told.out)["gamma"]) == (0, 5)


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


ORDINARY = {"exact": False, "exact_mode": "auto", "exact_rows": None}


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
    assert told["decoding"] == {"torch": ORDINARY, "mlx": ORDINARY}


def test_across_names_a_backend_that_is_not_installed(refused, llava_path, monkeypatch):
    monkeypatch.setattr(plugins, "find_spec", lambda name: name != "mlx" or None)
    across = "check", "--across", "torch,mlx"
    refused(*across, "--model", llava_path, words=['pip install "mmspec[mlx]"'])


def test_speed_prints_a_table_and_writes_json(run, pair, tmp_path):
    """The prompts typed and those of the file are asked."""
    out, prompts = tmp_path / "speed.json", tmp_path / "prompts.jsonl"
    prompts.write_text(json.dumps({"prompt": "What?"}))
    words = "--drafting", "M,none,M", "--gammas", "2,auto,2", "--repeats", "1", "--prompt", "Who?"
    result = run("bench", "speed", *pair, *words, "--prompts", prompts, "--out", out)
    assert (result.status, "M gamma 2" in result.out) == (0, True)
    told = json.loads(out.read_text())
    assert told["prompts"] == 2
    assert [each["name"] for each in told["methods"]] == ["plain", "M gamma 2", "M gamma auto"]
    plain, fixed, adaptive = told["methods"]
    assert (plain["tokens_per_round"], plain["acceptance_rate"]) == (1.0, 0.0)
    assert fixed["tokens_per_round"] > 1
    assert fixed["identical"] == adaptive["identical"] == adaptive["answers"] == 2
    assert told.items() >= ORDINARY.items()
    assert told["provenance"]["versions"]["torch"]


PROBING = [
    "generate --prompt one --json",
    "bench run --methods none --tasks chart --limit 1 --out out",
    "bench speed --repeats 1 --count 1 --gammas 2 --drafting M",
    "check --across torch,mlx",
    "calibrate",
]


@pytest.mark.parametrize("command", PROBING)
def test_a_probe_is_shown_while_it_goes_on_and_not_as_output(
    run, pair_paths, here, monkeypatch, command
):
    stop = Mock(side_effect=KeyboardInterrupt)
    monkeypatch.setattr("mmspec.exactness.finding.find_exact_rows", stop)
    target, draft = pair_paths
    models = "--model", target, "--draft", draft
    status, out, err = run(*command.split(), *models, "--exact", "on")
    assert (status, out) == (130, "")
    assert re.search(r"measuring once .*: about \d+ s; --exact off decodes at once", err)


def test_calibrate_measures_what_exact_rows_cost_unasked(run, models, monkeypatch):
    stop = Mock(side_effect=KeyboardInterrupt)
    monkeypatch.setattr("mmspec.exactness.finding.price_of", stop)
    assert run("calibrate", *models).status == 130
    assert stop.called


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("MMSPEC_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(steadiness, "MOMENT", 0.01)
    monkeypatch.setattr(calibrate, "PLAUSIBLE", 0.0)  # other tests keep this machine busy
    monkeypatch.setattr(steadiness, "LEAST_SHARE", 0.0)
    monkeypatch.setattr(steadiness, "MOST_RATIO", 1e9)
    return tmp_path / "cache"


@pytest.fixture(scope="module")
def measured():
    """`calibrate` with few passes, the first time; what is measured of the pair is of no matter."""
    results = []

    def measure(*arguments, **options):
        if not results:
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(calibrate, "SECONDS", 0.0)
                results.append(calibrate.calibrate(*arguments, repeats=1, **options))
        return results[0]

    return measure


@pytest.fixture
def models(narrow, measured, monkeypatch):
    """A pair that is measured once for all tests."""
    monkeypatch.setattr("mmspec_cli.calibrate.measure", measured)
    return narrow


def test_costs_are_shown_written_and_read_again(run, models, cache):
    """A file that is broken is named in one line, and no obstacle."""
    result = run("calibrate", *models)
    assert result.status == 0
    assert "target rows" in result.out
    assert "draft branches" in result.out
    [file] = (cache / "calibration").iterdir()
    assert result.out.splitlines()[-1] == f"written to {file}"
    engine = load(models[1], models[3], backend="torch")
    costs = engine.calibration(None)
    assert [list(curve) for curve in costs.target.values()] == [list(ROWS)] * 2
    for curves in (costs.draft, costs.level):
        assert [list(curve) for curve in curves.values()] == [[1, 2, 3, 4]] * 2
    assert engine.notes == []
    asked = "generate", "--prompt", "Hello?", *models, "--gamma", "auto", "--max-new-tokens", "4"
    for is_broken in (False, True):
        notes = json.loads(run(*asked, "--json").out)["notes"]
        assert [str(file) in note for note in notes if "calibration" in note] == [True] * is_broken
        file.write_text("{")


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
    assert told.items() >= ORDINARY.items()
    assert told["key"]["exact_rows"] is None
    assert len([*(cache / "calibration").iterdir()]) == 2


def test_what_cannot_be_decoded_exactly_is_not_measured(run, models, cache, monkeypatch):
    monkeypatch.setattr("mmspec.exactness.finding.find_exact_rows", lambda _: None)
    for mode, reason in (("on", "--exact on: "), ("maybe", "'maybe'")):
        result = run("calibrate", *models, "--exact", mode)
        [line] = [line for line in result.err.splitlines() if "measuring once" not in line]
        assert (result.status, reason in line) == (2, True)
    assert not [*cache.glob("calibration/*")]


def test_a_machine_that_is_busy_already_is_refused_at_once(run, models, monkeypatch):
    monkeypatch.setattr(steadiness, "LEAST_SHARE", 1000.0)
    monkeypatch.delattr("mmspec_cli.calibrate.measure")
    result = run("calibrate", *models)
    assert (result.status, result.out) == (1, "")
    assert result.err.startswith("not measured: the machine is busy: ")
    assert "fewer --threads" in result.err
    told = json.loads(run("calibrate", *models, "--json").out)
    assert (told["file"], "other programs" in told["problem"]) == (None, True)


def test_where_nothing_can_be_written_it_is_shown_all_the_same(run, models, cache):
    cache.write_text("a file where a folder should be")
    result = run("calibrate", *models)
    assert (result.status, "target rows" in result.out) == (1, True)
    assert "\nnot written" in result.err


def test_a_model_with_too_few_positions_is_not_calibrated(run, tmp_path):
    target, draft = factory.tiny_pair(tmp_path, positions=61)
    result = run("calibrate", "--model", str(target), "--draft", str(draft), "--backend", "torch")
    assert (result.status, "has 61 positions, and calibrate needs 62 or" in result.err) == (2, True)
