"""The command itself: quick to help, one line for every error."""

import subprocess
import sys

import pytest

from mmspec.chat.options import Options
from mmspec_terminal.setup import Setup


@pytest.mark.parametrize("arguments", [[], ["models"], ["--version"], ["chat", "--help"]])
def test_help_and_version_succeed(run, arguments):
    assert run(*arguments).status == 0


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["chta"], ["'chta'", "nearest: chat"]),
        (["generate"], ["--prompt", "mmspec generate --help"]),
        (["generate", "--prompt", " "], ["--prompt is empty"]),
        (["generate", "--prompt", "x", "--model", "minni"], ["'minni'", "nearest: mini"]),
        (["generate", "--prompt", "x", "--model", "some/where"], ["some/where", "models pull"]),
        (["chat", "--model", "llava-1.5-13b"], ["llava-1.5-13b", "models pull"]),
        (["generate", "--prompt", "x", "--backend", "toch"], ["'toch'", "nearest: torch"]),
        (["generate", "--prompt", "x", "--drafting", "MX"], ["'X'", "M, T, C or P"]),
        (["generate", "--prompt", "x", "--weights", "1,b"], ["1,b", "2,1,1"]),
        (["generate", "--prompt", "x", "--weights", "1"], ["--weights needs --drafting"]),
        (["generate", "--prompt", "x", "nowhere.png"], ["nowhere.png", "cannot be read"]),
        (["generate", "--prompt", "x", "--model", "mini-msd"], ["mini-msd is a head", "draft of"]),
        (["generate", "--prompt", "x", "--draft", "mini-msd", "--drafting", "MT"], ["use msd"]),
        (["generate", "--prompt", "x", "--draft", "mini-msd", "--adaptive"], ["--adaptive"]),
        (["check", "--prompt", "x", "--drafting", "none"], ["--draft"]),
        (["chat", "no\x1bwhere.png"], ["where.png", "cannot be read"]),
        (["bench", "peers", "--peers", "mlx,tgi"], ["unknown peer 'tgi'"]),
        (["bench", "speed", "--captions", "no.jsonl"], ["cannot read no.jsonl"]),
        (["bench", "speed", "--repeats", "0"], ["--repeats"]),
    ],
)
def test_errors_are_one_line_that_says_what_to_do(run, monkeypatch, arguments, words):
    monkeypatch.setattr("mmspec.chat.engine.load_model", None)  # it is said before anything is read
    status, out, err = run(*arguments)
    assert (status, out) == (2, "")
    assert err.startswith("mmspec: ")
    assert err.count("\n") == 1
    assert "\x1b" not in err
    for word in words:
        assert word in err


def test_a_reader_that_leaves_is_no_error(tmp_path):
    command = f"{sys.executable} -m mmspec_cli models list --json | true"
    done = subprocess.run(command, shell=True, capture_output=True, text=True, check=False)
    assert done.stderr == ""


def test_loading_is_said_before_anything_is_imported_for_it(monkeypatch):
    lines: list[str] = []
    monkeypatch.setitem(sys.modules, "mmspec.chat.engine", None)
    setup = Setup({}, Options())
    with pytest.raises(ModuleNotFoundError):
        setup.load(lines.append)
    assert lines == ["loading"]
