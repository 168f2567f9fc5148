"""`mmspec bench run` and `peers`: rows and provenance, resumed, beside others."""

import json
from dataclasses import replace
from itertools import count
from shutil import copytree
from unittest.mock import Mock

import pytest
from pyarrow import Table, parquet

from mmspec.checkpoints import recommendation
from mmspec.ground.errors import WriteError
from mmspec_bench.commands import report
from mmspec_bench.commands.output import resolve_pair
from mmspec_bench.compare.script_io import ProgramRun
from mmspec_bench.measure import steadiness
from mmspec_bench.measure.timing import Timing
from mmspec_bench.suite.rows import PROVENANCE, ROWS, read_rows
from mmspec_cli.main import main


def short(out, *more, methods="M,MTC,none", gamma="2"):
    length = ["--methods", methods, "--gamma", gamma, "--max-new-tokens", "8"]
    chosen = more if "--suite" in more else ["--tasks", "chart,spot", *more]
    return ["bench", "run", *length, "--limit", "2", *chosen, "--out", str(out)]


def provenance_of(out):
    return json.loads((out / PROVENANCE).read_text())


def stopped(*_):
    raise KeyboardInterrupt


def test_auto_is_mini_whatever_is_here(monkeypatch):
    monkeypatch.setattr(recommendation, "BEST_FIRST", ("mini-draft",))
    assert resolve_pair("auto", "none", "torch")[0] == "mini"


CAPTION = "--tasks", "caption"


@pytest.fixture(scope="module")
def finished(models, tmp_path_factory):
    """A run of a few sampled answers."""
    out = tmp_path_factory.mktemp("finished")
    sampled = "--temperature", "1", "--sampling-seed", "3"
    assert main([*short(out, *CAPTION, *sampled), *models]) == 0
    return out, [*models, *sampled]


@pytest.fixture
def again(finished, tmp_path):
    """The folder of the run, copied, and the command that goes on with it."""
    folder, more = finished
    out = copytree(folder, tmp_path / "out")
    return out, lambda *changes, **own: [*short(out, *CAPTION, **own), *more, *changes]


def test_a_run_leaves_rows_and_what_made_them(run, models, tmp_path, monkeypatch):
    monkeypatch.setattr(steadiness, "LEAST_SHARE", 0.0)  # other tests compute
    out = tmp_path / "out"
    result = run(*short(out, "--json"), *models)
    assert (result.status, result.err) == (0, "")
    rows = read_rows(out / ROWS)
    assert {row.sample for row in rows} == {"chart/0", "chart/1", "spot/0", "spot/1"}
    assert len(rows) == 4 * 2 * 3
    assert all(row.identical for row in rows if row.method != "none")
    assert {row.images for row in rows} == {1, 2}
    told = json.loads(result.out)
    assert (told["exact"], told["exact_mode"], told["exact_rows"]) == (False, "auto", None)
    summaries = told["methods"]
    assert [each["method"] for each in summaries] == ["M", "MTC", "none"]
    assert [each["identical"] for each in summaries] == [1.0, 1.0, None]
    provenance = provenance_of(out)
    assert (provenance["suite"], provenance["gamma"]) == ("offline", 2)
    assert provenance["models"]["target"] != provenance["models"]["draft"]
    assert provenance["methods"] == ["M", "MTC", "none"]
    assert all(row.seconds["caption"] > 0 for row in rows if row.method == "MTC" and not row.turn)


def test_a_second_run_must_say_so_and_be_the_same(run, refused, again):
    out, command = again
    before = (out / ROWS).read_bytes()
    for changed, name in (
        (command(), "--resume"),
        (command("--resume", gamma="3"), "gamma 2"),
        (command("--resume", methods="M,none"), "M,MTC,none"),
        (command("--resume", "--temperature", "0.5"), "temperature 1.0"),
    ):
        refused(*changed, words=[name])
    assert run(*command("--resume")).status == 0
    assert (out / ROWS).read_bytes() == before
    provenance = provenance_of(out)
    assert len(provenance["resumed"]) == 1
    settings = [provenance[name] for name in ("temperature", "top_k", "top_p", "sampling_seed")]
    assert settings == [1.0, 0, 1.0, 3]
    assert all(row.identical for row in read_rows(out / ROWS) if row.method != "none")
    other = {"cpu_threads": provenance["cpu_threads"] + 1}
    (out / PROVENANCE).write_text(json.dumps(provenance | other))
    refused(*command("--resume"), words=[f"cpu_threads {other['cpu_threads']}"])


def test_a_deleted_line_is_told_and_its_sample_answered_again(run, again, monkeypatch):
    out, command = again
    rows = (out / ROWS).read_text().splitlines(keepends=True)
    (out / ROWS).write_text("".join(rows[1:]))
    with monkeypatch.context() as patch:  # a report is shown where it cannot be written
        patch.setattr(report, "replace_text", Mock(side_effect=WriteError("no room")))
        shown, told = run("bench", "report", out), run("bench", "report", out, "--json")
    assert (shown.status, told.status, "no room" in shown.err) == (2, 2, True)
    assert "By images" in shown.out
    assert "(M 1)" in shown.out
    assert "(M 1)" in json.loads(told.out)["problem"]
    assert run(*command("--resume")).status == 0
    assert "(M 1)" not in run("bench", "report", out).out


def test_a_run_and_its_report_say_that_the_machine_was_busy(run, models, tmp_path, monkeypatch):
    monkeypatch.setattr(steadiness, "perf_counter", count(step=2).__next__)
    monkeypatch.setattr(steadiness, "process_time", count().__next__)
    few = short(tmp_path, *CAPTION, methods="none")
    said = [run(*few, *models).err, provenance_of(tmp_path)["problem"]]
    said.append(run("bench", "report", tmp_path).out)
    assert all("machine was busy: 50% of the time" in text for text in said)


def test_broken_samples_are_named_and_left_out_only_on_request(run, models, tmp_path, red):
    images = [{"bytes": None, "path": name} for name in (red.name, "gone.png")]
    table = Table.from_pylist([{"question": "What?", "image": image} for image in images])
    parquet.write_table(table, tmp_path / "rows.parquet")
    out = tmp_path / "out"
    asked = short(out, "--suite", f"chartqa={tmp_path}", methods="T,none")
    result = run(*asked, *models)
    assert result.status == 2
    assert "chartqa/1" in result.err
    assert "gone.png" in result.err
    result = run(*asked, *models, "--skip-bad", "--resume")
    assert result.status == 0
    assert "left out chartqa/1" in result.err
    assert [row.sample for row in read_rows(out / ROWS)] == ["chartqa/0", "chartqa/0"]
    assert [each["sample"] for each in provenance_of(out)["skipped"]] == ["chartqa/1"]


def test_a_difference_that_rounding_cannot_explain_is_a_failure(run, models, tmp_path, monkeypatch):
    from mmspec_bench.suite.answerer import answer_row

    def wrong(*answer):
        divergence = {"position": 0, "margin": 2.0, "outcome": "bug"}
        row = answer_row(*answer)
        return replace(row, divergence=divergence) if row.method == "M" else row

    monkeypatch.setattr("mmspec_bench.suite.runner.answer_row", wrong)
    assert run(*short(tmp_path, *CAPTION, methods="M,none"), *models).status == 1


SPEED = "bench", "speed", "--model"


def test_what_cannot_be_run_is_said_in_one_line_before_any_answer(
    run, refused, models, llama_path, tmp_path, monkeypatch
):
    monkeypatch.setattr("mmspec_bench.commands.speed.measure", stopped)
    out = tmp_path / "out"
    for command, message in (
        ([*short(out), *models, "--methods", "MX"], "unknown drafting 'MX'"),
        ([*short(out), *models, "--suite", "charqa"], "nearest: chartqa"),
        ([*short(out), *models, "--out", __file__], "test_cli_bench.py is no folder"),
        ([*SPEED, models[1], "--prompt", "Hi", "--tasks", "chart"], "--tasks names kinds"),
        ([*SPEED, llama_path, "--draft", "none", "--tasks", "chart"], "--tasks are about pictures"),
        ([*SPEED, models[1], "--draft", "none", "--drafting", "lookup,M"], "M needs a draft"),
    ):
        refused(*command, words=[message])
    assert not out.exists()
    assert run(*SPEED, models[1], "--draft", "none").status == 130


def test_processes_are_compared_and_a_missing_one_says_so(run, models, tmp_path):
    few = "--count 1 --repeats 1 --max-new-tokens 8 --threads 1 --device cpu"
    tiny, out = ["bench", "peers", *models[:4], *few.split()], tmp_path / "peers.json"
    result = run(*tiny, "--peers", "mlx,mlx-vlm,vllm", "--out", out, "--plain")
    assert result.status == 0
    assert "mlx_vlm is not installed for" in result.out
    assert "vllm is not installed for" in result.out
    plain, drafted, *missing = json.loads(out.read_text())["peers"]
    for each in (plain, drafted):
        assert each["figures"]["images"]["identical"] == 1
        assert each["start_seconds"] > 0
        assert each["peak_memory_bytes"] > 2**20
        assert each["described"]["dtype"] == "float32"
    assert drafted["figures"]["text"]["tokens_per_round"] >= 1
    assert all(each["figures"] == {} for each in missing)
    result = run(*tiny, "--peers", "vllm")
    assert (result.status, "at most 0 answered" in result.out) == (1, True)


@pytest.mark.parametrize("processes", [0, 2])
def test_a_comparison_that_is_stopped_shows_the_answers_so_far(run, models, monkeypatch, processes):
    replies = {"images": [Timing([7], 5, 2, 4, 1.0, 0.5)], "text": [Timing([7], 5, 2, 4, 1.0, 0.5)]}
    runs = iter([ProgramRun(1.0, 5, replies, {}, {})] * processes)
    monkeypatch.setattr(
        "mmspec_bench.compare.runner.run_script", lambda *_: next(runs, None) or stopped()
    )
    result = run("bench", "peers", *models[:4], "--peers", "torch", "--drafting", "T,M")
    assert (result.status, "the answers so far" in result.err) == (130, True)
    assert ("mmspec torch, plain" in result.out, "T gamma 5" in result.out) == (
        bool(processes),
    ) * 2
    assert "M gamma 5" not in result.out


@pytest.mark.parametrize("turns", [0, 2])
def test_speeds_that_are_stopped_are_those_of_the_turns_before(run, models, monkeypatch, turns):
    lasts = count()
    monkeypatch.setattr(
        "mmspec_bench.measure.speed.rotate",
        lambda items, turn: items if next(lasts) < turns else stopped(),
    )
    few = "--count", "3", "--max-new-tokens", "4", "--drafting", "T", "--gammas", "2"
    result = run("bench", "speed", *models, *few)
    assert (result.status, "the turns that all methods answered" in result.err) == (130, True)
    assert ("3 prompts x 3, 2 answered" in result.out, bool(result.out)) == (bool(turns),) * 2
