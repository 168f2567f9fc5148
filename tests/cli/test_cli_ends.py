"""SIGTERM, SIGHUP and SIGKILL at any moment: what was there and what was done stays."""

import os
import random
import signal
from pathlib import Path

import pytest

from mmspec_bench.suite.rows import ROWS, read_rows
from mmspec_cli.main import main
from support import endless
from support.terminal import PATIENCE, PROMPT, TEXT, Terminal

ENDING = [signal.SIGTERM, signal.SIGHUP]


def end(terminal: Terminal, number: signal.Signals) -> None:
    """Send a signal, and assert that the command ended in order."""
    os.kill(terminal.process.pid, number)
    assert terminal.status() == 128 + number
    assert terminal.changes() == []
    assert "Traceback" not in terminal.screen


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


def test_a_chat_ends_with_its_terminal(long, tmp_path):
    terminal = Terminal(endless.main, ["chat", *long], tmp_path)
    terminal.wait(PROMPT)
    terminal.type("what is it?\r")
    terminal.wait(TEXT)
    os.close(terminal.fd)
    terminal.process.join(PATIENCE)
    assert terminal.process.exitcode is not None


def bench_run(models: list[str], out: Path, *more: str) -> list[str]:
    few = ["--tasks", "caption", "--limit", "30", "--methods", "M,none"]
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
    assert [row.sample for row in rows if row.method == "M"] == [f"caption/{n}" for n in range(30)]


@pytest.mark.slow
@pytest.mark.parametrize("command", ["chat", "generate", "bench"])
def test_a_signal_at_any_moment_leaves_the_terminal_as_it_was(
    open_terminal, long, models, tmp_path, command
):
    """24 ends of each command, from its start to far into its work."""
    out = tmp_path / "out"
    start, arguments = {
        "chat": (endless.main, ["chat", *long]),
        "generate": (endless.main, ["generate", "--prompt", "what is it?", *long]),
        "bench": (main, bench_run(models, out, "--limit", "9000")),
    }[command]
    draws, statuses = random.Random(0), []
    for attempt in range(24):
        more = ["--resume"] if (out / "provenance.json").exists() else []
        terminal = open_terminal(start, [*arguments, *more])
        if command == "chat":
            terminal.type("what is it?\r")
        terminal.watch(draws.uniform(0, 4) if attempt else 8)
        assert terminal.process.is_alive(), terminal.screen
        os.kill(terminal.process.pid, draws.choice(ENDING))
        statuses.append(terminal.status())
        assert terminal.changes() == []
        assert "Traceback" not in terminal.screen
    assert set(statuses) <= {143, 129, -15, -1}  # a minus: before the command began
    assert statuses.count(143) + statuses.count(129) > 12
