"""A chat at a real terminal: a person's keys go in, what a screen would show comes out."""

import os
import re
import select
import shlex
import signal
import struct
import subprocess
import sys
import time
from pathlib import Path

import pytest

from support import endless, factory
from support.commands import execute, start_process

fcntl, pty, termios = map(pytest.importorskip, ("fcntl", "pty", "termios"))

PATIENCE = 120
"""Seconds; a busy machine may take long to start."""

TEXT = r"tokens\x1b\[0m\r\x1b\[2K[^\x1b]{30}"
"""The first of an answer: what follows the last line of progress."""


PROMPT = r"\x1b\[\?2004h[\s\S]*?>"
"""A prompt: bracketed paste is switched on where one begins."""


class Terminal:
    """A process at a pseudo-terminal of its own: `main` with its arguments."""

    def __init__(self, main, arguments: list[str], directory: Path, columns: int = 80) -> None:
        self.screen = ""
        self.read_to = 0
        self.fd, terminal = pty.openpty()
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        variables = {"TERM": "xterm-256color", "XDG_STATE_HOME": str(directory), "NO_COLOR": ""}
        self.process = start_process(
            main, arguments, terminal=terminal, directory=directory, **variables
        )
        os.close(terminal)

    def echoes(self) -> bool:
        """Whether the terminal shows what is typed."""
        return bool(termios.tcgetattr(self.fd)[3] & termios.ECHO)

    def type(self, keys: str) -> None:
        os.write(self.fd, keys.encode())

    def wait(self, pattern: str) -> str:
        """Read until `pattern` appears after what was waited for last; return what came."""
        deadline = time.monotonic() + PATIENCE
        while not (found := re.search(pattern, self.screen[self.read_to :])):
            ready, _, _ = select.select([self.fd], [], [], max(deadline - time.monotonic(), 0))
            assert ready, f"no {pattern!r} in {self.screen[self.read_to :]!r}"
            self.screen += self._read()
        came = self.screen[self.read_to : self.read_to + found.end()]
        self.read_to += found.end()
        return came

    def _read(self) -> str:
        try:
            return os.read(self.fd, 65536).decode(errors="replace")
        except OSError:  # Linux's end of file once the child has gone
            pytest.fail(f"the child left: {self.screen[self.read_to :]!r}")

    def status(self) -> int:
        """Read to the end and return the exit status."""
        while True:
            try:
                if not os.read(self.fd, 65536):
                    break
            except OSError:
                break
        self.process.join()
        return self.process.exitcode


@pytest.fixture(scope="module")
def long_pair(checkpoints: Path) -> tuple[Path, Path]:
    """A pair with room for an answer of seconds."""
    return factory.tiny_pair(checkpoints / "long", positions=60_000)


@pytest.fixture
def chat(long_pair, red) -> list[str]:
    """The arguments of a chat whose answers go on for long."""
    target, draft = map(str, long_pair)
    options = ["--model", target, "--draft", draft, "--backend", "torch"]
    return [
        "chat",
        "red.png",
        *options,
        "--max-new-tokens",
        "50000",
        "--repeat-limit",
        "0",
        "--details",
    ]


@pytest.fixture
def program(chat) -> list[str]:
    """The command line that starts Python for the chat."""
    return [sys.executable, endless.__file__, *chat]


@pytest.fixture
def terminal(chat, tmp_path):
    child = Terminal(endless.main, chat, tmp_path)
    yield child
    os.close(child.fd)


def test_ctrl_c_stops_the_answer_and_the_chat_goes_on(terminal, tmp_path):
    terminal.wait(r"\[1 image\] >")
    terminal.type("what is it?\r")
    assert "reading" in terminal.wait(TEXT)
    terminal.type("\x03")
    terminal.wait(r"stopped; /retry[\s\S]*peak\s+[\d.]+\s+[GM]B")
    terminal.wait(PROMPT)

    terminal.type("half a line")
    terminal.wait("half a line")
    terminal.type("\x03")
    terminal.wait(PROMPT)
    terminal.type("/imag\t red.png\r")
    terminal.wait("Added image red.png")
    terminal.wait(r"\[1 image\] >")
    terminal.type("/nonsense\r")
    terminal.wait("unknown command '/nonsense'")

    terminal.type("\x1b[200~and\nnow?\x1b[201~\r")
    terminal.wait(TEXT)
    terminal.type("\x03")
    counts = r"(\d+)\s+cached\s+\+\s+(\d+)\s+new"
    cached, new = map(int, re.search(counts, terminal.wait(counts)).groups())
    assert cached > new > 0
    terminal.wait(PROMPT)
    terminal.type("\x04")
    assert terminal.status() == 0
    history = (tmp_path / "mmspec" / "history").read_text()
    assert "+what is it?\n" in history
    assert "+and\n+now?\n" in history  # pasted lines are one question


def test_what_a_terminal_gets_holds_no_raw_control_character(terminal):
    terminal.wait(r"\[1 image\] >")
    terminal.type("what is it?\r")
    came = terminal.wait(TEXT)
    terminal.type("\x03")
    came += terminal.wait("stopped;")
    own = re.sub(r"\x1b\[[\d;?]*[A-Za-z]", "", came)  # the colours and erasures of the chat itself
    assert re.findall(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]", own) == []
    terminal.type("/quit\r")
    assert terminal.status() == 0


def test_ctrl_c_ends_a_chat_that_reads_a_pipe(long_pair):
    arguments = ["chat", "--model", str(long_pair[0]), "--draft", "none"]
    child = subprocess.Popen(
        [sys.executable, endless.__file__, *arguments, "--max-new-tokens", "50000", "--details"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    child.stdin.write(b"one\ntwo\n")
    child.stdin.flush()
    child.stdout.read(100)
    child.send_signal(signal.SIGINT)
    _, err = child.communicate(timeout=PATIENCE)
    assert child.returncode == 130
    assert err.count(b"peak") == 1
    assert err.splitlines()[-1] == b"mmspec: interrupted"


def test_ctrl_c_while_loading_leaves_without_a_traceback(program, tmp_path):
    terminal = Terminal(execute, program, tmp_path)
    terminal.wait("loading")
    terminal.type("\x03")
    terminal.wait("mmspec: interrupted")
    assert terminal.status() == 130
    os.close(terminal.fd)


def test_what_is_typed_during_an_answer_waits_for_the_prompt(terminal):
    terminal.wait(r"\[1 image\] >")
    assert not terminal.echoes()  # the prompt shows the keys itself
    terminal.type("what is it?\r")
    terminal.wait(TEXT)
    terminal.type("zebra zebra")
    assert "zebra" not in terminal.wait(r"[\s\S]{2000}")
    terminal.type("\x03")
    came = terminal.wait(r"stopped; /retry[\s\S]*" + PROMPT + r"[\s\S]*zebra zebra")
    assert came.count("zebra") == 2

    terminal.type("\x15and now?\r")
    terminal.wait(TEXT)
    terminal.type("\x04")  # leaves, but not in the middle of an answer
    terminal.wait(r"[\s\S]{2000}")
    terminal.type("\x03")
    terminal.wait(r"stopped; /retry[\s\S]*peak")
    assert terminal.status() == 0


def test_a_second_ctrl_c_loses_no_line_about_the_answer(terminal):
    terminal.wait(r"\[1 image\] >")
    terminal.type("what is it?\r")
    terminal.wait(TEXT)
    terminal.type("\x03\x03\x03\x03")
    terminal.wait(r"stopped; /retry[\s\S]*peak[\s\S]*" + PROMPT)
    terminal.type("/quit\r")
    assert terminal.status() == 0


def test_a_chat_that_is_ended_at_its_prompt_gives_the_terminal_back(terminal):
    terminal.wait(r"\[1 image\] >")
    assert not terminal.echoes()
    terminal.process.terminate()
    assert terminal.status() == 143
    assert terminal.echoes()


def test_ctrl_z_gives_the_terminal_back_and_the_answer_goes_on(program, tmp_path):
    job = 'set -m; "$@"; stty -a; echo "here"; fg; stty -a; echo left'
    terminal = Terminal(execute, ["sh", "-c", job, "sh", *program], tmp_path)
    terminal.wait(r"\[1 image\] >")
    terminal.type("what is it?\r")
    terminal.wait(TEXT)
    assert not terminal.echoes()
    terminal.type("\x1a")
    stopped = terminal.wait("here\r\n")
    assert re.search(r"[^-]echo ", stopped)
    assert "eof = ^D" in stopped
    terminal.wait(r"[\s\S]{2000}")
    assert not terminal.echoes()
    terminal.type("\x03")
    terminal.wait(r"stopped; /retry[\s\S]*peak[\s\S]*" + PROMPT)
    terminal.type("\x04")
    assert re.search(r"[^-]echo ", terminal.wait("left\r\n"))
    os.close(terminal.fd)


def test_an_answer_is_broken_between_words(chat, tmp_path):
    terminal = Terminal(endless.main, chat, tmp_path, columns=40)
    terminal.wait(r"\[1 image\] >")
    terminal.type("what is it?\r")
    terminal.wait(TEXT)
    came = terminal.wait(r"[\s\S]{2000}\n")
    terminal.type("\x03/quit\r")
    lines = came.split("\r\n")[1:]
    assert len(lines) > 20
    assert max(map(len, lines)) < 40
    assert terminal.status() == 0
    os.close(terminal.fd)


@pytest.mark.slow
def test_an_image_from_a_pipe_leaves_the_terminal_for_questions(program, tmp_path):
    words = ["-" if word == "red.png" else word for word in program]
    terminal = Terminal(execute, ["sh", "-c", f"cat red.png | {shlex.join(words)}"], tmp_path)
    terminal.wait("Added image standard input")
    terminal.wait(r"\[1 image\] >")
    terminal.type("/quit\r")
    assert terminal.status() == 0
    os.close(terminal.fd)


@pytest.mark.slow
def test_a_conversation_at_a_terminal_goes_on_in_the_next_chat(chat, tmp_path):
    for resume, told in ([], "Added image"), (["--resume"], "went on from the conversation of"):
        terminal = Terminal(endless.main, [*chat, *resume], tmp_path)
        terminal.wait(told)
        terminal.wait(PROMPT)
        terminal.type("what is it?\r")
        terminal.wait(TEXT)
        terminal.type("\x03")
        terminal.wait(r"stopped; /retry[\s\S]*peak[\s\S]*" + PROMPT)
        terminal.type("/quit\r")
        assert terminal.status() == 0
        os.close(terminal.fd)
    (file,) = (tmp_path / "mmspec" / "conversations").iterdir()
    assert file.read_text().count("what is it?") == 2
