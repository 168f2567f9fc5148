"""SIGTERM, SIGHUP and SIGKILL at any moment: what was there and what was done stays."""

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from multiprocessing.process import BaseProcess
from pathlib import Path
from random import Random
from typing import Any

import pytest

from mmspec.checkpoints.hub_cache import cached
from mmspec_bench.suite.rows import PROVENANCE, ROWS, read_rows
from mmspec_cli.main import main
from support import endless, factory
from support.commands import execute, start_process
from support.hub_server import FakeHub, serving
from support.lessons import write_lessons
from support.suite_row import without_times
from support.terminal import PATIENCE, PROMPT, TEXT, Terminal

ENDING = [signal.SIGTERM, signal.SIGHUP]


def end(terminal: Terminal, number: signal.Signals) -> None:
    """Send a signal, and assert that the command ended in order."""
    os.kill(terminal.process.pid, number)
    assert terminal.status() == 128 + number
    assert terminal.changes() == []
    assert "Traceback" not in terminal.screen


@pytest.fixture
def long(long_pair) -> list[str]:
    """Options of an answer that goes on for long."""
    target, draft = map(str, long_pair)
    models = ["--model", target, "--draft", draft, "--backend", "torch"]
    return [*models, "--max-new-tokens", "50000", "--repeat-limit", "0", "--details"]


@pytest.mark.parametrize(
    ("command", "answering", "number"),
    [
        ("chat", False, signal.SIGTERM),
        ("chat", True, signal.SIGHUP),
        ("generate", True, signal.SIGTERM),
    ],
)
def test_what_is_ended_gives_the_terminal_back(open_terminal, long, command, answering, number):
    prompt = ["--prompt", "what is it?"] if command == "generate" else []
    terminal = open_terminal(endless.main, [command, *prompt, *long])
    if command == "chat":
        terminal.wait(PROMPT)
        terminal.type("what is it?\r" if answering else "half a line")
    terminal.wait(TEXT if answering else "half a line")
    assert terminal.echoes() == (command == "generate")
    end(terminal, number)


@pytest.mark.parametrize("answering", [False, True])
def test_a_chat_ends_with_its_terminal(long, tmp_path, answering):
    terminal = Terminal(endless.main, ["chat", *long], tmp_path)
    terminal.wait(PROMPT)
    terminal.type("what is it?")
    terminal.wait("what is it?")
    if answering:
        terminal.type("\r")
        terminal.wait(TEXT)
    os.close(terminal.fd)
    terminal.process.join(PATIENCE)
    assert terminal.process.exitcode is not None


def bench_run(models: list[str], out: Path, *more: str) -> list[str]:
    few = ["--tasks", "chart", "--limit", "30", "--turns", "1", "--methods", "M,none"]
    return ["bench", "run", *models, *few, "--max-new-tokens", "8", "--out", str(out), *more]


def test_a_run_of_the_suite_that_is_ended_goes_on(open_terminal, run, models, tmp_path):
    out = tmp_path / "out"
    terminal = open_terminal(main, bench_run(models, out))
    terminal.wait(r"[1-9]\d*/30")
    end(terminal, signal.SIGTERM)
    assert "the rows so far are in" in terminal.screen
    kept = read_rows(out / ROWS)
    assert 0 < len(kept) < 60
    assert run(*bench_run(models, out, "--resume")).status == 0
    rows = read_rows(out / ROWS)
    assert rows[: len(kept)] == kept
    assert [row.sample for row in rows if row.method == "M"] == [f"chart/{n}" for n in range(30)]


def train(out: Path) -> list[str]:
    """A whole command line: a run starts processes, which a process of `start_process` may not."""
    options = ["--recipe", "test", "--no-compile", "--threads", "1", "--device", "cpu"]
    stages = ["--stage", "tokenizer", "--stage", "tower", "--steps", "tower", "100000"]
    command = [sys.executable, "-m", "mmspec_cli", "train", "mini", *stages, *options]
    return [*command, "--out", str(out)]


@pytest.mark.slow
@pytest.mark.parametrize("command", ["chat", "generate", "bench", "train"])
def test_a_signal_at_any_moment_leaves_the_terminal_as_it_was(
    open_terminal, run, long, models, tmp_path, command
):
    """24 ends of each command, from its start to far into its work."""
    out = tmp_path / "out"
    asked = ["--prompt", "what is it?"]
    start, arguments, longest = {
        "chat": (endless.main, ["chat", *long], 4),
        "generate": (endless.main, ["generate", *asked, *long], 4),
        "bench": (main, bench_run(models, out, "--limit", "9000"), 4),
        "train": (execute, train(out), 16),
    }[command]
    draws = random.Random(0)
    statuses = []
    for attempt in range(24):
        begun = attempt and (out / "provenance.json").exists() and command == "bench"
        terminal = open_terminal(start, [*arguments, *(["--resume"] if begun else [])])
        if command == "chat":
            terminal.type("what is it?\r")
        terminal.watch(draws.uniform(0, longest) if attempt else 2 * longest)
        assert terminal.process.is_alive(), terminal.screen
        os.kill(terminal.process.pid, draws.choice(ENDING))
        statuses.append(terminal.status())
        assert terminal.changes() == []
        assert "Traceback" not in terminal.screen
    assert set(statuses) <= {143, 129, -15, -1}  # a minus: before the command began
    assert statuses.count(143) + statuses.count(129) > 12
    if command == "bench":
        kept = [without_times(row) for row in read_rows(out / ROWS)]
        assert len(kept) > 20
        count = str(len(kept) // 2)
        assert run(*bench_run(models, tmp_path / "whole", "--limit", count)).status == 0
        whole = [without_times(row) for row in read_rows(tmp_path / "whole" / ROWS)]
        assert whole == kept[: len(whole)]


KILLS = 24
SAMPLES = "1500"
"""Of the suite, more than the kills leave done."""
STEPS = 2000
"""Of training, more than the kills leave done."""


def kill(process: BaseProcess, seconds: float) -> None:
    """Kill a process that is still at work after some seconds."""
    process.join(seconds)
    assert process.is_alive(), process.exitcode
    process.kill()
    process.join()
    assert process.exitcode == -signal.SIGKILL


@pytest.mark.slow
def test_a_run_of_the_suite_loses_no_row(run, pair_paths, tmp_path):
    """Every third kill comes from the start on, the others after some rows."""
    target, draft = map(str, pair_paths)
    few = ["--tasks", "chart", "--limit", SAMPLES, "--methods", "MT,none", "--gamma", "2"]
    few += ["--turns", "1", "--max-new-tokens", "8", "--backend", "torch"]
    asked = ["bench", "run", "--model", target, "--draft", draft, *few]
    out, draws = tmp_path / "killed", Random(0)
    rows, kept = out / ROWS, list[Any]()
    for number in range(KILLS):
        resume = ["--resume"] if (out / PROVENANCE).exists() else []
        process = start_process(main, [*asked, "--out", str(out), *resume])
        wanted = size(rows) + draws.randrange(4000) if number % 3 else 0
        while size(rows) < wanted and process.is_alive():
            time.sleep(0.002)
        kill(process, draws.uniform(0, 0.05 if wanted else 3))
        left = read_rows(rows) if rows.exists() else []
        assert left[: len(kept)] == kept
        # The last sample may be answered again.
        kept = [row for row in left if row.sample != left[-1].sample]
    assert kept
    whole = tmp_path / "whole"
    assert run(*asked, "--out", out, "--resume").status == 0
    assert run(*asked, "--out", whole).status == 0
    ours, theirs = (map(without_times, read_rows(folder / ROWS)) for folder in (out, whole))
    assert list(ours) == list(theirs)


def size(file: Path) -> int:
    return file.stat().st_size if file.exists() else 0


@pytest.fixture
def lessons(tmp_path) -> list[str]:
    """Options for data in LLaVA's instruction format, every other line with an image."""
    file = write_lessons(tmp_path, lambda number: number % 2)
    return ["--data", str(file), "--samples", "24", "--held-out", "4"]


def distill(out: Path, target: Path, lessons: list[str]) -> list[str]:
    few = ["--answer-tokens", "6", "--answer-rows", "2", "--steps", str(STEPS), "--every", "1"]
    few += ["--batch", "256", "--gamma", "2", "--device", "cpu", "--threads", "1"]
    command = [sys.executable, "-m", "mmspec_cli", "train", "distill", "--kind", "medusa"]
    return [*command, "--target", str(target), *lessons, *few, "--out", str(out)]


@pytest.mark.slow
def test_training_ends_at_the_same_weights(pair_paths, lessons, tmp_path):
    """Every third kill comes from the start on, the others after some steps."""
    out, draws, done = tmp_path / "killed", Random(0), [0]
    for number in range(KILLS):
        child = subprocess.Popen(
            distill(out, pair_paths[0], lessons), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
        )
        more = draws.randint(1, 4) if number % 3 else 0
        while more and len(steps(out)) < done[-1] + more:
            assert child.poll() is None, child.communicate()
            time.sleep(0.01)
        time.sleep(draws.uniform(0, 0.05 if more else 8))
        assert child.poll() is None, child.communicate()
        child.kill()
        child.communicate()
        done.append(len(steps(out)))
    assert done[-1] > KILLS
    whole = tmp_path / "whole"
    for folder in (out, whole):
        subprocess.run(distill(folder, pair_paths[0], lessons), check=True, capture_output=True)
    assert steps(out) == steps(whole) == [*range(1, STEPS + 1)]
    for name in ("model.safetensors", "config.json"):
        assert (out / name).read_bytes() == (whole / name).read_bytes(), name
    answers = [sorted((folder / "answers").rglob("*.jsonl")) for folder in (out, whole)]
    assert [file.read_bytes() for file in answers[0]] == [file.read_bytes() for file in answers[1]]
    assert answers[0]


def steps(out: Path) -> list[int]:
    """The steps in the log of a run, in their order; a torn last row is none."""
    log = out / "log.csv"
    rows = log.read_text().splitlines(keepends=True)[1:] if log.exists() else []
    cells = [row.split(",") for row in rows if row.endswith("\n")]
    return [int(step) for step, stage, *_ in cells if stage == out.name]


@pytest.fixture
def slow_hub(tmp_path) -> Iterator[tuple[Path, dict[str, str]]]:
    """A hub that serves a model in several files slowly; its directory, and the variables."""
    served = factory.tiny_llama(tmp_path / "served", sharded=True)
    with serving({"org/model": served}) as (_, address):
        FakeHub.piece_seconds = 0.01
        variables = {"HF_HUB_CACHE": str(tmp_path / "hub"), "HF_HUB_OFFLINE": "0"}
        yield served, variables | {"HF_ENDPOINT": address}
        FakeHub.piece_seconds = 0.0


@pytest.mark.slow
def test_a_pull_keeps_whole_files_and_ends_with_all(slow_hub, monkeypatch):
    from huggingface_hub import constants

    served, variables = slow_hub
    monkeypatch.setattr(constants, "HF_HUB_CACHE", variables["HF_HUB_CACHE"])
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    draws, pull = Random(0), ["models", "pull", "org/model", "--backend", "torch"]
    kept: set[str] = set()
    for _ in range(KILLS):
        process = start_process(main, pull, **variables)
        process.join(draws.uniform(0.05, 2))
        process.kill()
        process.join()
        snapshot = cached("org/model", "main")
        assert snapshot is None or contents(snapshot) == contents(served)
        blobs = {
            path.name: path
            for path in Path(variables["HF_HUB_CACHE"]).glob("*/blobs/*")
            if path.suffix != ".incomplete"
        }
        assert kept <= set(blobs)
        kept = set(blobs)
    process = start_process(main, pull, **variables)
    process.join(120)
    assert process.exitcode == 0
    assert contents(cached("org/model", "main")) == contents(served)


def contents(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in folder.iterdir()}
