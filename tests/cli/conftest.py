"""A command line, a tiny pair and two images."""

import io
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from mmspec_cli.main import main
from support import factory
from support.commands import Result, Run


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """`run("generate", "--prompt", "hello", stdin="")`."""

    def command(*arguments: str | Path, stdin: str | bytes = "") -> Result:
        is_text = isinstance(stdin, str)
        source = io.StringIO(stdin) if is_text else io.TextIOWrapper(io.BytesIO(stdin))
        monkeypatch.setattr("sys.stdin", source)
        status = main([str(argument) for argument in arguments])
        return Result(status, *capsys.readouterr())

    return command


@pytest.fixture
def refused(run: Run):
    """`refused("generate", "--gamma", "x", words=["auto"])`: one line says what is wrong."""

    def command(*arguments: str | Path, words: Iterable[str], stdin: str | bytes = "") -> None:
        status, out, err = run(*arguments, stdin=stdin)
        assert (status, out, err.count("\n")) == (2, "", 1), err
        assert err.startswith("mmspec: ")
        assert "\x1b" not in err
        for word in words:
            assert word in err

    return command


class Talk(Result):
    """What came of a chat with `--json`."""

    @property
    def records(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.out.splitlines()]

    @property
    def answers(self) -> list[dict[str, Any]]:
        return [record for record in self.records if "text" in record]

    @property
    def ids(self) -> list[list[int]]:
        return [answer["token_ids"] for answer in self.answers]

    @property
    def notices(self) -> list[str]:
        return [record["notice"] for record in self.records if "notice" in record]


@pytest.fixture
def chat(run: Run, pair: list[str], here: Path):
    """`chat("line", "line", more=[...])` in a folder with red.png and `blue one.png`."""

    def talk(*lines: str, images=(), more=(), models=pair, as_json: bool = True) -> Talk:
        form = ["--json"] if as_json else []
        return Talk(*run("chat", *images, *models, *more, *form, stdin="\n".join(lines)))

    return talk


def options_of(paths: Iterable[Path]) -> list[str]:
    """Options that choose a target and a draft."""
    target, draft = map(str, paths)
    return ["--model", target, "--draft", draft, "--backend", "torch"]


@pytest.fixture(scope="session")
def models(pair_paths: tuple[Path, Path]) -> list[str]:
    """Options that choose the tiny pair."""
    return options_of(pair_paths)


@pytest.fixture
def pair(models: list[str]) -> list[str]:
    """Options that choose the tiny pair and a short answer."""
    return [*models, "--max-new-tokens", "12"]


@pytest.fixture(scope="session")
def narrow(checkpoints: Path) -> list[str]:
    """Options of a pair with 256 positions, which a long question soon fills."""
    return options_of(factory.tiny_pair(checkpoints / "narrow", positions=256))


@pytest.fixture(scope="session")
def long(checkpoints: Path) -> list[str]:
    """Options of a pair with room for an answer of seconds, and of an answer that takes it."""
    pair = options_of(factory.tiny_pair(checkpoints / "long", positions=60_000))
    return [*pair, "--max-new-tokens", "50000", "--repeat-limit", "0", "--details"]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder and home, with red.png and `blue one.png`."""
    for colour, name in (("red", "red.png"), ("blue", "blue one.png")):
        Image.new("RGB", (64, 48), colour).save(tmp_path / name)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


@pytest.fixture
def red(here: Path) -> Path:
    return here / "red.png"
