"""A chat at a real terminal: a person's keys go in, what a screen would show comes out."""

import os
import re
import signal
import sys
from subprocess import PIPE, Popen

import pytest

from mmspec_cli.main import main
from support import endless
from support.commands import execute
from support.hub_server import PAIR, serving
from support.terminal import PATIENCE, PROMPT, TEXT

IMAGE_PROMPT = r"\[1 image\] >"
STOPPED = r"stopped; /retry[\s\S]*peak[\s\S]*"


@pytest.fixture
def chat(long, red) -> list[str]:
    """The arguments of a chat whose answers go on for long."""
    return ["chat", "red.png", *long]


@pytest.fixture
def program(chat) -> list[str]:
    """The command line that starts Python for the chat."""
    return [sys.executable, endless.__file__, *chat]


@pytest.fixture
def terminal(open_terminal, chat):
    return open_terminal(endless.main, chat)


def ask(terminal, prompt=IMAGE_PROMPT) -> str:
    """Type a question at the prompt; what came up to the answer's first text."""
    terminal.wait(prompt)
    terminal.type("what is it?\r")
    return terminal.wait(TEXT)


def leave(terminal, key="/quit\r") -> None:
    terminal.type(key)
    assert terminal.status() == 0


def test_ctrl_c_stops_the_answer_and_the_chat_goes_on(terminal, tmp_path):
    assert "reading" in ask(terminal)
    terminal.type("\x03\x03\x03\x03")  # a second one loses no line about the answer
    terminal.wait(r"stopped; /retry[\s\S]*peak\s+[\d.]+\s+[GM]B")
    terminal.wait(PROMPT)

    terminal.type("half a line")
    terminal.wait("half a line")
    terminal.type("\x03")
    terminal.wait(PROMPT)
    terminal.enter("/imag\t red.png", "Added image red.png")
    terminal.enter("/nonsense", "unknown command '/nonsense'")
    terminal.type("\x1b[200~and\nnow?\x1b[201~\r")
    terminal.wait(TEXT)
    terminal.type("\x03")
    counts = r"(\d+)\s+cached\s+\+\s+(\d+)\s+new"
    cached, new = map(int, re.search(counts, terminal.wait(counts)).groups())
    assert cached > new > 0
    terminal.wait(PROMPT)
    leave(terminal, "\x04")
    history = (tmp_path / "mmspec" / "history").read_text()
    assert "+what is it?\n" in history
    assert "+and\n+now?\n" in history  # pasted lines are one question


def test_ctrl_c_while_loading_leaves_without_a_traceback(open_terminal, program):
    terminal = open_terminal(execute, program)
    terminal.wait("loading")
    terminal.type("\x03")
    terminal.wait(r"\r\x1b\[Kmmspec: interrupted")  # in place of the line of progress
    assert terminal.status() == 130


LINGERING = """
import atexit, sys, time
from mmspec_cli.main import main
atexit.register(lambda: (print("ending", flush=True), time.sleep(60)))
sys.argv = ["mmspec", "--version"]
sys.exit(main())
"""


def test_ctrl_c_while_the_process_ends_shows_no_traceback():
    child = Popen([sys.executable, "-c", LINGERING], stdout=PIPE, stderr=PIPE, text=True)
    assert [child.stdout.readline() for _ in range(2)][1] == "ending\n"
    child.send_signal(signal.SIGINT)
    assert (child.communicate(timeout=PATIENCE)[1], child.returncode) == ("", -signal.SIGINT)


def test_what_is_typed_during_an_answer_waits_for_the_prompt(terminal, tmp_path):
    terminal.wait(IMAGE_PROMPT)
    assert not terminal.echoes()  # the prompt shows the keys itself
    terminal.type("what is it?\r")
    terminal.wait(TEXT)
    terminal.type("zebra zebra")
    assert "zebra" not in terminal.wait(r"[\s\S]{600}")
    terminal.type("\x03")
    came = terminal.wait(r"stopped; /retry[\s\S]*" + PROMPT + r"[\s\S]*zebra zebra")
    assert came.count("zebra") == 2

    terminal.type("\x15and now?\r")
    terminal.wait(TEXT)
    terminal.type("\x1b[200~two\nlines\x1b[201~\r\x03")
    terminal.wait(r"stopped; /retry[\s\S]*" + PROMPT + r"[\s\S]*two[\s\S]*lines")
    terminal.wait(TEXT)
    terminal.type("\x04")  # leaves, but not in the middle of an answer
    terminal.wait(r"[\s\S]{600}")
    terminal.type("\x03")
    terminal.wait(r"stopped; /retry[\s\S]*peak")
    assert terminal.status() == 0
    assert terminal.screen.count("\x1b[?2004h") == 7
    assert "+two\n+lines\n" in (tmp_path / "mmspec" / "history").read_text()


def test_ctrl_z_gives_the_terminal_back_and_the_answer_goes_on(open_terminal, program):
    job = 'set -m; "$@"; stty -a; echo "here"; fg; stty -a; echo left'
    terminal = open_terminal(execute, ["sh", "-c", job, "sh", *program])
    ask(terminal)
    assert not terminal.echoes()
    terminal.type("\x1a")
    stopped = terminal.wait("here\r\n")
    assert re.search(r"[^-]echo ", stopped)
    assert "eof = ^D" in stopped
    terminal.wait(r"[\s\S]{600}")
    assert not terminal.echoes()
    terminal.type("\x03")
    terminal.wait(STOPPED + PROMPT)
    terminal.type("\x04")
    assert re.search(r"[^-]echo ", terminal.wait("left\r\n"))


def test_enter_forgets_the_oldest_questions_of_a_full_context(open_terminal, narrow, red):
    terminal = open_terminal(main, ["chat", red.name, *narrow, "--plain"])
    terminal.wait(PROMPT)
    for line in ("/max-new-tokens 12", "long " * 16, "/max-new-tokens 7000", "two " * 8, ""):
        terminal.enter(line, "" if line else "s in all")
    shown = " ".join(terminal.screen.split())
    assert "Enter forgets the first question, with red.png, and asks again" in shown
    assert "forgot the first question, with red.png; /undo twice" in shown
    assert "long" not in terminal.enter("/history", "1> two")
    leave(terminal)


@pytest.mark.parametrize("pixels", [0, 800])
def test_pixels_are_shown_without_asking_what_the_terminal_draws(open_terminal, pair, red, pixels):
    """A question would take keys that were typed meanwhile for its answer."""
    terminal = open_terminal(
        main, ["chat", red.name, *pair], pixels=pixels, TERM_PROGRAM="iTerm.app"
    )
    shown = terminal.wait(IMAGE_PROMPT)
    assert ("\x1bP" in shown) == (pixels > 0 and "TMUX" not in os.environ)
    assert not re.search(r"\x1b\[(c|16t)", shown)
    leave(terminal)


def test_questions_come_from_the_terminal_by_its_own_name_after_an_image_from_a_pipe(open_terminal):
    """macOS cannot wait for keys at /dev/tty."""
    code = "from mmspec_cli.terminal.image_sources import os, type_at_terminal as t; t(); "
    code += "print(os.ttyname(0), os.ttyname(1))"
    shell = ["sh", "-c", 'echo | "$@"', "sh", sys.executable, "-c", code]
    open_terminal(execute, shell).wait(r"(/dev/\S+) \1\r\n")


PULL = r"pull it now\? \[Y/n\] "


@pytest.fixture
def hub(pair_paths, tmp_path):
    """A hub with one pair that has cards, and what reaches it."""
    with serving(dict(zip(PAIR, pair_paths, strict=True))) as (served, address):
        cache = {"HF_HUB_CACHE": str(tmp_path / "hub"), "HF_HUB_OFFLINE": "0"}
        yield served, {**cache, "HF_ENDPOINT": address}


@pytest.mark.parametrize(("key", "pulls"), [("\r", True), ("no\r", False)])
def test_a_chat_offers_to_pull_a_model_that_is_not_here(open_terminal, hub, key, pulls):
    chat = ["chat", "--model", "llava-1.5-7b", "--backend", "torch"]
    terminal = open_terminal(main, chat, **hub[1])
    terminal.wait(PULL)
    assert not hub[0].requested
    terminal.type(key)
    if pulls:
        terminal.wait(PROMPT)
        leave(terminal)
    else:
        assert terminal.status() == 2
        assert "run `mmspec models pull llava-1.5-7b --backend torch`" in terminal.screen
    assert ("model.safetensors" in hub[0].requested) == pulls
