"""A command line, a tiny pair and two images."""

import io
from pathlib import Path

import pytest
from PIL import Image

from mmspec_cli.main import main
from support import factory
from support.commands import Result, Run


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """`run("generate", "--prompt", "hello", stdin="")`."""

    def command(*arguments: str | Path, stdin: str = "") -> Result:
        monkeypatch.setattr("sys.stdin", io.StringIO(stdin))
        status = main([str(argument) for argument in arguments])
        return Result(status, *capsys.readouterr())

    return command


@pytest.fixture
def pair(pair_paths: tuple[Path, Path]) -> list[str]:
    """Options that choose the tiny pair and a short answer."""
    target, draft = map(str, pair_paths)
    return f"--model {target} --draft {draft} --backend torch --max-new-tokens 12".split()


@pytest.fixture(scope="session")
def long_pair(checkpoints: Path) -> tuple[Path, Path]:
    """A pair with room for an answer of seconds."""
    return factory.tiny_pair(checkpoints / "long", positions=60_000)


@pytest.fixture
def red(tmp_path: Path) -> Path:
    return _image(tmp_path / "red.png", "red")


@pytest.fixture
def blue(tmp_path: Path) -> Path:
    return _image(tmp_path / "blue one.png", "blue")


def _image(path: Path, colour: str) -> Path:
    Image.new("RGB", (64, 48), colour).save(path)
    return path
