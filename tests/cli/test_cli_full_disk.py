"""Every command that writes, on a full disk: one line, and what was there still stands."""

import json
import os
import signal
import stat
from pathlib import Path

import pytest
from huggingface_hub import constants

from mmspec_bench.suite.rows import PROVENANCE, ROWS, read_rows
from mmspec_train.mini import stages
from support.commands import Result, Run
from support.factory_heads import tiny_head
from support.hub_server import reach, serving
from support.serve_process import free_port, serve
from support.suite_row import without_times

OLD = '{"old": "content"}\n'


@pytest.fixture(autouse=True)
def _no_git(monkeypatch: pytest.MonkeyPatch) -> None:
    """A limit on file sizes would kill git, which then leaves its lock in the source tree."""
    monkeypatch.setattr("mmspec.diagnostics.provenance.commit", lambda: None)


def refusal(result: Result, file: Path, status: int = 2) -> None:
    """Assert that a command said in one line that it could not write `file`."""
    assert result.status == status
    last = result.err.splitlines()[-1]
    assert f"{file} cannot be written (" in last
    assert "Traceback" not in result.err
    assert partials(file.parent) == []


def partials(folder: Path) -> list[Path]:
    return list(folder.rglob("*partial*"))


def test_save_leaves_the_old_conversation(run: Run, pair, disk):
    file = disk.folder / "talk.json"
    assert run("chat", *pair, stdin=f"hello\n/save {file}\n").status == 0
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    before = file.read_bytes()
    with disk.full(free=64):
        result = run("chat", *pair, stdin=f"another\n/save {file}\n/save {file}\n")
    refusal(result, file, status=0)
    assert file.read_bytes() == before
    assert run("chat", *pair, stdin=f"/load {file}\nand?\n").status == 0


@pytest.mark.parametrize("free", [4096, 120_000], ids=["while copying", "while quantizing"])
def test_quantize_leaves_no_directory(run: Run, pair_paths, disk, free):
    copy = disk.folder / "copies" / "q4"
    with disk.full(free=free):
        result = run("models", "quantize", pair_paths[0], copy, "--group-size", "32")
    refusal(result, copy)
    assert not copy.exists()
    assert run("models", "quantize", pair_paths[0], copy, "--group-size", "32").status == 0
    assert (copy / "model.safetensors").exists()


def test_export_leaves_no_directory(run: Run, llava_path, tmp_path, disk):
    head, copy = tiny_head(tmp_path / "head", "eagle3"), disk.folder / "heads" / "copy"
    command = ("models", "export", head, copy, "--to", "sglang", "--target", llava_path)
    with disk.full(free=20_000):
        result = run(*command)
    refusal(result, copy)
    assert not copy.exists()
    assert run(*command).status == 0
    assert (copy / "config.json").exists()


def test_a_report_of_a_measurement_is_shown_and_the_old_file_stands(run: Run, models, disk):
    file = disk.folder / "report.json"
    file.write_text(OLD)
    few = ["--count", "1", "--repeats", "1", "--max-new-tokens", "2", "--drafting", "T"]
    with disk.full(free=64):
        result = run("bench", "speed", *models, *few, "--gammas", "2", "--out", file)
    refusal(result, file)
    assert "tokens" in result.out
    assert file.read_text() == OLD


def test_a_calibration_is_shown_and_the_old_one_stands(
    run: Run, models, disk, monkeypatch, measure_once
):
    monkeypatch.setenv("MMSPEC_CACHE", str(disk.folder))
    monkeypatch.setattr("mmspec_cli.calibrate.measure", measure_once)
    monkeypatch.setattr("mmspec.draft_length.calibration_file.PLAUSIBLE", 0.0)
    monkeypatch.setattr("mmspec_bench.measure.steadiness.LEAST_SHARE", 0.0)
    monkeypatch.setattr("mmspec_bench.measure.steadiness.MOST_RATIO", 1e9)
    assert run("calibrate", *models).status == 0
    [file] = (disk.folder / "calibration").iterdir()
    before = file.read_bytes()
    with disk.full(free=64):
        result = run("calibrate", *models)
    refusal(result, file, status=1)
    assert file.read_bytes() == before


def bench_run(out: Path, models: list[str], *more: str) -> list[str]:
    few = ["--tasks", "chart", "--limit", "8", "--turns", "1", "--methods", "M,none"]
    return ["bench", "run", *models, *few, "--max-new-tokens", "4", "--out", str(out), *more]


def test_a_run_of_the_suite_keeps_its_rows_and_is_resumed(run: Run, models, disk, tmp_path):
    out = disk.folder / "out"
    with disk.full(free=12_288 if disk.is_tmpfs else 6_000):
        result = run(*bench_run(out, models))
    refusal(result, out / ROWS)
    assert "--resume" in result.err
    kept = read_rows(out / ROWS)
    assert 0 < len(kept) < 16
    assert run(*bench_run(out, models, "--resume")).status == 0
    assert run(*bench_run(tmp_path / "whole", models)).status == 0
    rows, whole = (
        [without_times(row) for row in read_rows(folder / ROWS)]
        for folder in (out, tmp_path / "whole")
    )
    assert rows == whole


def test_a_run_that_cannot_begin_leaves_no_settings(run: Run, models, disk):
    out = disk.folder / "out"
    out.mkdir()
    with disk.full(free=64):
        result = run(*bench_run(out, models))
    refusal(result, out / PROVENANCE)
    assert list(out.iterdir()) == []


def test_a_bench_report_leaves_the_old_one(run: Run, models, disk):
    out = disk.folder / "out"
    assert run(*bench_run(out, models)).status == 0
    assert run("bench", "report", out).status == 0
    before = {file: file.read_bytes() for file in out.rglob("*") if file.is_file()}
    with disk.full(free=8):
        result = run("bench", "report", out)
    refusal(result, out / "report.md")
    assert {file: file.read_bytes() for file in out.rglob("*") if file.is_file()} == before


def train(out: Path, *stage: str) -> list[str]:
    steps = [word for name in ("tower", "projector", "target") for word in ("--steps", name, "2")]
    chosen = [word for name in stage for word in ("--stage", name)]
    budgets = [word for at, word in enumerate(steps) if steps[at - at % 3 + 1] in stage]
    options = ["--recipe", "test", "--no-compile", "--threads", "1", "--device", "cpu"]
    return ["train", "mini", *chosen, *budgets, *options, "--out", str(out)]


def test_training_stops_before_its_result_and_goes_on(run: Run, disk, monkeypatch, tmp_path):
    monkeypatch.setattr(stages, "TOKENIZER_SAMPLES", 160)
    out = disk.folder / "run"
    assert run(*train(out, "tokenizer")).status == 0
    with disk.full(free=40_000):
        result = run(*train(out, "tower"))
    refusal(result, out / "tower.checkpoint")
    assert not (out / "tower.safetensors").exists()
    assert run(*train(out, "tower")).status == 0
    assert (out / "tower.safetensors").exists()
    assert json.loads((out / "about.json").read_text())["--recipe"] == "test"


def test_a_pull_says_what_cannot_be_written_and_goes_on(run: Run, llama_path, disk, monkeypatch):
    cache = disk.folder / "hub"
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(cache))
    pull = ["models", "pull", "org/model", "--backend", "torch"]
    with serving({"org/model": llama_path}) as (_, address):
        reach(address, monkeypatch)
        with disk.full(free=40_960):
            result = run(*pull)
        assert result.status == 2
        last = result.err.splitlines()[-1]
        assert last.startswith("mmspec: org/model does not fit the disk: ")
        assert f" free in {cache};" in last
        assert run(*pull).status == 0


def test_a_server_answers_with_everything_it_may_write_on_a_full_disk(pair_paths, disk):
    if not disk.is_tmpfs:
        pytest.skip("a limit on file sizes does not reach the server's process")
    target, draft = map(str, pair_paths)
    options = [target, "--draft", draft, "--backend", "torch"]
    folders = {"MMSPEC_CACHE": str(disk.folder / "cache"), "TMPDIR": str(disk.folder)}
    with disk.full():
        server = serve(options, disk.folder / "log", free_port(), **folders)
        try:
            server.wait_for_health()
            assert server.ask().status_code == 200
            os.kill(server.process.pid, signal.SIGTERM)
            server.process.join(20)
            assert not server.process.is_alive()
        finally:
            server.process.kill()
    assert partials(disk.folder) == []
