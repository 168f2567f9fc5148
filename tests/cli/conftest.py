"""A command line, a tiny pair and two images."""

import io
from collections.abc import Callable
from pathlib import Path

import pytest
from PIL import Image

from mmspec.chat.engine import Engine
from mmspec.ground.progress import Progress
from mmspec_bench.measure.calibrate import Measured, calibrate
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


@pytest.fixture(scope="session")
def measure_once() -> Callable[..., Measured]:
    """`calibrate` with few passes, the first time; what is measured of the pair is of no matter."""
    results: list[Measured] = []

    def measure(engine: Engine, progress: Progress, *, exact: str) -> Measured:
        if not results:
            results.append(calibrate(engine, progress, repeats=1, exact=exact))
        return results[0]

    return measure


@pytest.fixture
def models(pair_paths: tuple[Path, Path]) -> list[str]:
    """Options that choose the tiny pair."""
    target, draft = map(str, pair_paths)
    return ["--model", target, "--draft", draft, "--backend", "torch"]


@pytest.fixture
def pair(models: list[str]) -> list[str]:
    """Options that choose the tiny pair and a short answer."""
    return [*models, "--max-new-tokens", "12"]


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
