"""`check`, `bench` and `doctor`: their output and exit statuses."""

import json
from dataclasses import replace
from itertools import count

import pytest

from mmspec.chat import plugins
from mmspec.diagnostics import check as core_check
from mmspec_bench.measure.steadiness import Stopwatch
from mmspec_terminal.render import Screen


def test_check_says_identical(run, pair, red):
    result = run("check", red, "--prompt", "What is it?", *pair, "--drafting", "MTC")
    assert result.status == 0
    assert result.out.splitlines()[-1].startswith("identical (torch, cpu, float32;")


def test_check_prints_one_object(run, pair):
    result = run("check", "--prompt", "Hello?", *pair, "--json")
    told = json.loads(result.out)
    assert (told["outcome"], told["exit_code"], told["dtype"]) == ("identical", 0, "float32")
    assert (told["exact"], told["exact_mode"], told["exact_rows"]) == (False, "auto", None)
    assert told["comparisons"][0]["drafting"] == "T"


@pytest.mark.parametrize("word", [pytest.param("int8", marks=pytest.mark.slow), "int4"])
def test_check_says_identical_of_the_bundled_pair_quantized(run, red, word):
    chosen = "--model", "mini", "--backend", "torch", "--device", "cpu", "--quantize", word
    result = run("check", red, "--prompt", "Describe the picture.", *chosen)
    assert result.status == 0
    assert result.out.splitlines()[-1].startswith(f"identical (torch, cpu, float32 {word};")


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


@pytest.mark.parametrize(
    ("gamma", "drafted", "remarked"), [("auto", 1, True), ("auto", 6, False), ("5", 1, False)]
)
def test_check_says_that_little_was_checked(run, pair, monkeypatch, gamma, drafted, remarked):
    original = core_check.compare

    def counted(*arguments):
        return replace(original(*arguments), outcome="identical", tokens=12, drafted=drafted)

    monkeypatch.setattr(core_check, "compare", counted)
    result = run("check", "--prompt", "Hello?", *pair, "--gamma", gamma)
    assert ("Hello?: little was drafted" in result.out) == remarked
    assert result.out.splitlines()[-1].startswith("identical")


def test_check_compares_sampled_answers(run, pair):
    sampled = ("--temperature", "0.8", "--top-p", "0.9", "--seed", "3", "--max-new-tokens", "12")
    result = run("check", "--prompt", "Hello?", *pair, *sampled)
    assert (result.status, result.out.splitlines()[-1].split()[0]) == (0, "identical")


def test_check_needs_a_question_for_images(run, pair, red, monkeypatch):
    monkeypatch.setattr("mmspec.chat.engine.load_model", None)  # told before anything is read
    result = run("check", red, *pair)
    assert result.status == 2
    assert "--prompt" in result.err


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


@pytest.mark.parametrize(("processor", "is_busy"), [(0.5, True), (1.0, False)])
def test_speed_says_that_the_machine_was_busy(run, pair, tmp_path, monkeypatch, processor, is_busy):
    ticks = count()
    clock = Stopwatch(lambda: next(ticks), lambda: processor * next(ticks))
    monkeypatch.setattr("mmspec_bench.measure.steadiness.STOPWATCH", clock)
    out = tmp_path / "speed.json"
    result = run("bench", "speed", *pair, *FIRST, "--out", out)
    assert ("The machine was busy: 50% of the time" in result.out) == is_busy
    assert bool(json.loads(out.read_text())["problem"]) == is_busy


def test_speed_measures_lookup_without_a_draft_and_chosen_lengths(run, pair):
    words = "--drafting", "M,lookup", "--gammas", "auto", "--repeats", "1", "--count", "1"
    result = run("bench", "speed", *pair, *words, "--draft", "none")
    assert result.status == 0
    assert "lookup gamma auto" in result.out
    assert "M gamma" not in result.out


@pytest.mark.parametrize(("option", "name"), [("--tasks", "chrat"), ("--gammas", "many")])
def test_speed_names_what_it_does_not_know(run, pair, option, name):
    status, _, err = run("bench", "speed", *pair, option, name)
    assert (status, err.count("\n")) == (2, 1)
    assert f"'{name}'" in err


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


def test_doctor_names_what_is_missing(run):
    result = run("doctor", "--full")
    assert "mmspec models pull llava-1.5-7b" in result.out
    told = json.loads(run("doctor", "--json").out)
    assert told["backends"]["torch"]["threads"] >= 1
    assert told["exit_code"] == result.status


def test_doctor_says_what_is_known_of_exact_decoding(
    run, models, measure_once, monkeypatch, tmp_path
):
    monkeypatch.setenv("MMSPEC_CACHE", str(tmp_path))
    assert "not measured yet" in run("doctor", "--full").out
    monkeypatch.setattr("mmspec_cli.calibrate.busy_already", lambda: "")
    monkeypatch.setattr("mmspec_cli.calibrate.measure", measure_once)
    run("calibrate", *models)
    lines = [line for line in run("doctor", "--full").out.splitlines() if "9.00 times" in line]
    assert len(lines) == 1
    assert "float32, torch on cpu" in lines[0]
