"""`check`, `bench` and `doctor`: their output and exit statuses."""

import json
from dataclasses import replace

import pytest

from mmspec.chat import plugins
from mmspec.diagnostics import check as core_check
from mmspec_terminal.render import Screen


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
    monkeypatch.setitem(plugins.FRAMEWORKS, "mlx", "no_such_framework")
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
