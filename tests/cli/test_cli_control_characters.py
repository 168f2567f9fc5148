"""No control character of models, files, people, cards and hubs reaches a terminal."""

import json
import os
import shutil
from pathlib import Path

import pytest

from mmspec_bench.suite.rows import ROWS
from support import hostile
from support.hostile import EVIL, TITLE, reached, talking
from support.hub_server import serving
from support.terminal import PROMPT, Terminal

SPELT = r"\^\[\]0;owned\^G"
"""How `TITLE` is shown."""


@pytest.fixture
def at_terminal(tmp_path):
    """A function that runs a command at a terminal, and returns its status and what it showed."""
    opened = []

    def run(*arguments: str | Path, **variables: str) -> tuple[int, str]:
        command = [str(argument) for argument in arguments]
        terminal = Terminal(hostile.main, command, tmp_path, columns=4000, **variables)
        opened.append(terminal)
        status = terminal.status()
        assert reached(terminal.screen) == [], terminal.screen
        return status, terminal.screen

    yield run
    for terminal in opened:
        os.close(terminal.fd)


@pytest.fixture
def evil(pair_paths, tmp_path) -> list[str]:
    """Options of a model that says control characters, in a directory of such a name."""
    copy = talking(pair_paths[0], tmp_path / f"model {EVIL}")
    return ["--model", str(copy), "--draft", "none", "--backend", "torch", "--max-new-tokens", "24"]


@pytest.fixture
def picture(red, tmp_path) -> Path:
    return shutil.copy(red, tmp_path / f"image {EVIL}.png")


def test_the_model_does_say_them(run, evil):
    """Without a terminal, so that nothing is spelt out."""
    assert TITLE in run("generate", "--prompt", "what is it?", *evil).out


def test_a_chat_spells_them_out(evil, picture, tmp_path):
    saved = tmp_path / f"talk {EVIL[:-1]}.json"  # a person's own keys may turn the reading order
    terminal = Terminal(hostile.main, ["chat", str(picture), *evil], tmp_path, columns=4000)
    terminal.wait(PROMPT)
    terminal.type(f"\x1b[200~what {TITLE} is it?\x1b[201~\r")
    terminal.wait(SPELT)
    terminal.wait(PROMPT)
    terminal.type("/images\r")
    terminal.wait(SPELT)
    terminal.wait(PROMPT)
    terminal.type(f"\x1b[200~/save {saved}\x1b[201~\r")
    terminal.wait("saved to")
    terminal.wait(PROMPT)
    terminal.type("/save talk.json\r")
    terminal.wait("saved to")
    terminal.wait(PROMPT)
    content = json.loads((tmp_path / "talk.json").read_text())
    (tmp_path / "bad.json").write_text(json.dumps(content | {"version": EVIL, "format": EVIL}))
    (tmp_path / "gone.json").write_text((tmp_path / "talk.json").read_text().replace(".png", ".x"))
    for line in (
        "/load bad.json",
        "/load gone.json",
        "/load talk.json",
        "/retry",
        "/stats",
        "/nope",
    ):
        terminal.type(f"{line}\r")
        terminal.wait(PROMPT)
    terminal.type("/load ta\t\x15/image im\t\t\x15/system " + "\x16\x1b]0;owned\x16\x07\r")
    terminal.wait(PROMPT)
    terminal.type("/quit\r")
    assert terminal.status() == 0
    assert reached(terminal.screen) == []
    os.close(terminal.fd)


def test_answers_errors_and_json_spell_them_out(at_terminal, evil, picture):
    asked = ["generate", picture, "--prompt", f"what {EVIL}?", *evil]
    status, screen = at_terminal(*asked)
    assert status == 0
    assert "^[]0;owned^G" in screen
    status, screen = at_terminal(*asked, "--json")
    assert TITLE in json.loads(screen[screen.index("{") : screen.rindex("}") + 1])["text"]
    for wrong in (["--dtype", EVIL], ["--drafting", EVIL], [f"--{EVIL}"]):
        assert at_terminal(*asked, *wrong)[0] == 2
    assert at_terminal("generate", f"no {EVIL}", "--prompt", "?", *evil)[0] == 2
    assert at_terminal(EVIL)[0] == 2


def test_cards_spell_them_out(at_terminal):
    for arguments in (["list"], ["show", "evil"], ["show", "evil", "--json"]):
        status, screen = at_terminal("models", *arguments)
        assert status == 0
        assert "owned" in screen
    assert at_terminal("models", "pull", "evil")[0] == 2


@pytest.mark.parametrize("found", [True, False])
def test_answers_of_a_hub_spell_them_out(at_terminal, llama_path, tmp_path, found):
    served = tmp_path / "served"
    shutil.copytree(llama_path, served)
    (served / f"a {TITLE}\x1b[5;5H.json").write_text("{}")
    evil = TITLE + "\x9b2J"
    headers = {"X-HF-Warning": f"topic; {evil}", "X-Error-Message": evil, "X-Request-Id": evil}
    with serving({"org/model": served} if found else {}, headers) as (_, address):
        cache = {"HF_HUB_CACHE": str(tmp_path / "hub"), "HF_HUB_OFFLINE": "0"}
        status, screen = at_terminal("models", "pull", "org/model", HF_ENDPOINT=address, **cache)
    assert status == (0 if found else 2)
    assert "owned" in screen


def test_a_run_and_its_report_spell_them_out(at_terminal, evil, tmp_path):
    out = tmp_path / f"out {EVIL}"
    few = ["--tasks", "chart", "--limit", "1", "--methods", "none", "--max-new-tokens", "4"]
    asked = ["bench", "run", *evil[:-2], *few, "--out", out]
    assert at_terminal(*asked)[0] == 0
    assert at_terminal(*asked)[0] == 2
    rows = out / ROWS
    row = json.loads(rows.read_text().splitlines()[0])
    names = {"task": EVIL, "sample": f"{EVIL}/0"}
    rows.write_text(json.dumps(row | names | {"method": f"M{EVIL}", "pieces": [EVIL]}) + "\n")
    at_terminal("bench", "report", out)
    at_terminal("bench", "report", out, "--json")


def test_a_defect_keeps_its_traceback_without_them(monkeypatch, run):
    def fail(*_):
        raise ValueError(EVIL)

    monkeypatch.setattr("mmspec_cli.options.Setup.load", fail)
    result = run("generate", "--prompt", "?")
    assert result.status == 1
    assert "Traceback" in result.err
    assert "ValueError: ^[]0;owned" in result.err
    assert reached(result.err) == []
