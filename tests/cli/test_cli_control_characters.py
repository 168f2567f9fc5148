"""No control character of models, files, people, cards and hubs reaches a terminal."""

import json
import logging
import os
import shutil
import signal
import socket
from pathlib import Path
from unittest.mock import Mock

import httpx2
import pytest

from mmspec.chat.chat import Chat
from support import endless
from support.hostile import EVIL, TITLE, reached, talking
from support.hub_server import serving
from support.live_server import CHAT, PATIENCE, free_port
from support.terminal import PROMPT

SPELT = r"\^\[\]0;owned\^G"
"""How `TITLE` is shown."""


def failing_server(arguments: list[str]) -> int:
    """`mmspec`, of which a request with the seed 13 finds a defect that quotes the request."""
    asked = Chat.send

    def send(chat, message, chunks=None):
        if chat.options.seed == 13:
            logging.getLogger(f"library {EVIL}").error("%s: %s", EVIL, message)
            raise RuntimeError(EVIL)
        return asked(chat, message, chunks)

    Chat.send = send
    return endless.main(arguments)


@pytest.fixture
def at_terminal(open_terminal):
    """A function that runs a command at a terminal, and returns its status and what it showed."""

    def run(*arguments: str | Path, **variables: str) -> tuple[int, str]:
        command = [str(argument) for argument in arguments]
        terminal = open_terminal(endless.main, command, columns=4000, **variables)
        status = terminal.status()
        assert reached(terminal.screen) == [], terminal.screen
        return status, terminal.screen

    return run


@pytest.fixture
def evil(pair_paths, tmp_path) -> list[str]:
    """Options of a model that says control characters, in a directory of such a name."""
    copy = talking(pair_paths[0], tmp_path / f"model {EVIL}")
    return ["--model", str(copy), "--draft", "none", "--backend", "torch", "--max-new-tokens", "24"]


@pytest.fixture
def picture(red, tmp_path) -> Path:
    return shutil.copy(red, tmp_path / f"image {EVIL}.png")


def test_a_chat_spells_them_out(open_terminal, evil, picture, tmp_path):
    saved = tmp_path / f"talk {EVIL[:-1]}.json"  # a person's own keys may turn the reading order
    terminal = open_terminal(endless.main, ["chat", str(picture), *evil], columns=4000)
    terminal.wait(PROMPT)
    for line, shown in (
        (f"\x1b[200~what {TITLE} is it?\x1b[201~", SPELT),
        ("/images", SPELT),
        (f"\x1b[200~/save {saved}\x1b[201~", "saved to"),
        ("/save talk.json", "saved to"),
    ):
        terminal.enter(line, shown)
    content = json.loads((tmp_path / "talk.json").read_text())
    (tmp_path / "bad.json").write_text(json.dumps(content | {"version": EVIL, "format": EVIL}))
    (tmp_path / "gone.json").write_text((tmp_path / "talk.json").read_text().replace(".png", ".x"))
    loads = ("/load bad.json", "/load gone.json", "/load talk.json")
    for line in (*loads, "/retry", "/stats", "/nope"):
        terminal.enter(line)
    terminal.enter("/load ta\t\x15/image im\t\t\x15/system " + "\x16\x1b]0;owned\x16\x07")
    terminal.type("/quit\r")
    assert terminal.status() == 0
    assert reached(terminal.screen) == []


def test_answers_errors_and_json_spell_them_out(at_terminal, evil, picture):
    asked = ["generate", picture, "--prompt", f"what {EVIL}?", *evil]
    status, screen = at_terminal(*asked)
    assert status == 0
    assert "^[]0;owned^G" in screen
    status, screen = at_terminal(*asked, "--json")
    assert TITLE in json.loads(screen[screen.index("{") : screen.rindex("}") + 1])["text"]
    for wrong in ([*asked, "--dtype", EVIL], ["generate", f"no {EVIL}", *asked[2:]], [EVIL]):
        assert at_terminal(*wrong)[0] == 2


def test_answers_of_a_hub_spell_them_out(at_terminal, tmp_path):
    evil = TITLE + "\x9b2J"
    headers = {"X-HF-Warning": f"topic; {evil}", "X-Error-Message": evil, "X-Request-Id": evil}
    with serving({}, headers) as (_, address):
        cache = {"HF_HUB_CACHE": str(tmp_path / "hub"), "HF_HUB_OFFLINE": "0"}
        status, screen = at_terminal("models", "pull", "org/model", HF_ENDPOINT=address, **cache)
    assert (status, "owned" in screen) == (2, True)


def test_the_log_of_training_spells_them_out(run, evil, picture, tmp_path):
    """An image is missing. A pipe gets them in the path of the result alone, as everywhere."""
    out, data = tmp_path / f"out {EVIL}", tmp_path / f"lines {EVIL}.jsonl"
    texts = f"<image>\nWhat {EVIL}?", f"A {EVIL}.", EVIL, "No."
    said = [{"from": ("human", "gpt")[n % 2], "value": text} for n, text in enumerate(texts)]
    names = [f"gone {EVIL}.png", *[picture.name] * 24]
    lines = [json.dumps({"id": EVIL, "image": name, "conversations": said}) for name in names]
    data.write_text("\n".join(lines))
    asked = ["train", "distill", "--kind", "medusa", "--target", evil[1], "--data", data]
    few = "--samples 6 --held-out 1 --steps 2 --batch 256 --gamma 2 --answer-tokens 4 --device cpu"
    result = run(*asked, *few.split(), "--out", out)
    *lines, path, _ = result.out.split("\n")
    assert (result.status, str(out) in path) == (0, True)
    assert "held-out loss" in lines[2]
    assert all("owned" in line or line.startswith("answers") for line in lines)
    assert reached("\n".join(lines) + result.err) == []


def test_a_defect_keeps_its_traceback_without_them(monkeypatch, run):
    monkeypatch.setattr("mmspec_terminal.setup.Setup.load", Mock(side_effect=ValueError(EVIL)))
    result = run("generate", "--prompt", "?")
    assert (result.status, "Traceback" in result.err) == (1, True)
    assert "ValueError: ^[]0;owned" in result.err
    assert reached(result.err) == []


def test_a_server_and_its_log_spell_them_out(open_terminal, evil):
    port = free_port()
    served = ["serve", evil[1], *evil[2:], "--port", str(port)]
    terminal = open_terminal(failing_server, served, columns=4000)
    terminal.wait("answers at")
    url, messages = f"http://127.0.0.1:{port}", [{"role": "user", "content": f"what {EVIL}?"}]
    asked = {"messages": messages}
    for body, status in (
        (asked, 200),
        (asked | {"model": EVIL}, 404),
        ({EVIL: EVIL}, 400),
        (asked | {"seed": 13}, 500),
    ):
        assert httpx2.post(url + CHAT, json=body, timeout=PATIENCE).status_code == status
    with socket.create_connection(("127.0.0.1", port)) as raw:
        raw.sendall(f"GET /{EVIL} HTTP/1.1\r\n{EVIL}\r\n\r\n".encode())
        assert b"400" in raw.recv(999)
    os.kill(terminal.process.pid, signal.SIGHUP)
    assert terminal.status() == 128 + signal.SIGHUP
    for word in ("owned", "RuntimeError", "Invalid HTTP request"):
        assert word in terminal.screen
    assert reached(terminal.screen) == [], terminal.screen
