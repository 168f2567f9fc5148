"""Every command that writes, on a full disk: one line, and what was there still stands."""

import stat
from pathlib import Path

import pytest

from mmspec_bench.suite.rows import ROWS, read_rows
from support.commands import Result

OLD = '{"old": "content"}\n'


@pytest.fixture(autouse=True)
def _no_git(monkeypatch: pytest.MonkeyPatch) -> None:
    """A limit on file sizes would kill git, which then leaves its lock in the source tree."""
    monkeypatch.setattr("mmspec.diagnostics.provenance.commit", lambda: None)


def refusal(result: Result, file: Path) -> None:
    """Assert that a command said in one line that it could not write `file`."""
    assert result.status == 2
    last = result.err.splitlines()[-1]
    assert f"{file} cannot be written (" in last
    assert "Traceback" not in result.err
    assert list(file.parent.rglob("*partial*")) == []


def test_save_leaves_the_old_conversation(run, pair, disk):
    file = disk.folder / "talk.json"
    assert run("chat", *pair, stdin=f"hello\n/save {file}\n").status == 0
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    before = file.read_bytes()
    with disk.full(free=64):
        result = run("chat", *pair, stdin=f"another\n/save {file}\n/save {file}\n")
    refusal(result, file)
    assert file.read_bytes() == before
    assert run("chat", *pair, stdin=f"/load {file}\nand?\n").status == 0


@pytest.mark.parametrize("free", [4096, 120_000], ids=["while copying", "while quantizing"])
def test_quantize_leaves_no_directory(run, pair_paths, disk, free):
    copy = disk.folder / "copies" / "q4"
    with disk.full(free=free):
        result = run("models", "quantize", pair_paths[0], copy, "--group-size", "32")
    refusal(result, copy)
    assert not copy.exists()
    assert run("models", "quantize", pair_paths[0], copy, "--group-size", "32").status == 0
    assert (copy / "model.safetensors").exists()


def test_a_report_of_a_measurement_is_shown_and_the_old_file_stands(run, models, disk):
    file = disk.folder / "report.json"
    file.write_text(OLD)
    few = ["--count", "1", "--repeats", "1", "--max-new-tokens", "2", "--drafting", "T"]
    with disk.full(free=64):
        result = run("bench", "speed", *models, *few, "--gammas", "2", "--out", file)
    refusal(result, file)
    assert "tokens" in result.out
    assert file.read_text() == OLD


def test_a_run_of_the_suite_keeps_its_rows_and_is_resumed(run, models, disk):
    few = ["--tasks", "caption", "--limit", "8", "--methods", "M,none", "--max-new-tokens", "4"]
    out = disk.folder / "out"
    with disk.full(free=12_288 if disk.is_tmpfs else 6_000):
        result = run("bench", "run", *models, *few, "--out", out)
    refusal(result, out / ROWS)
    assert "--resume" in result.err
    assert 0 < len(read_rows(out / ROWS)) < 16
    assert run("bench", "run", *models, *few, "--out", out, "--resume").status == 0
    assert len(read_rows(out / ROWS)) == 16


def test_training_stops_before_its_result_and_goes_on(run, pair_paths, disk, tmp_path):
    out, few = disk.folder / "run", "--samples 2 --held-out 1 --answer-tokens 2 --cache-gb 0"
    command = ["train", "distill", "--kind", "medusa", "--target", pair_paths[0], "--steps", "2"]
    command += [*few.split(), "--answers-dir", tmp_path / "answers", "--device", "cpu"]
    with disk.full(free=12_288):
        result = run(*command, "--out", out)
    refusal(result, out / "training" / "state.best")
    assert not (out / "model.safetensors").exists()
    assert run(*command, "--out", out).status == 0
    files = {"config.json", "model.safetensors", "training.json", "log.csv", "marks.csv"}
    assert {each.name for each in out.iterdir()} == files
