"""Tiny checkpoints made once per session; one thread, for tiny tensors run fastest on one."""

import gc
import importlib
import os
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from support import factory, factory_layouts
from support.full_disk import Disk, opened_disk

# The libraries read these when they are first imported, which the conftest of a folder may do.
for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(name, "1")
os.environ["HF_HUB_OFFLINE"] = "1"


def pytest_configure(config: pytest.Config) -> None:
    """Let each library compute on one thread, and signals reach the tests that send them.

    A suite that a shell started in the background is told to ignore Ctrl-C, with nohup SIGHUP too.
    Hypothesis has no limits of time, which a busy machine exceeds.
    """
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    os.environ["MMSPEC_CACHE"] = mkdtemp(prefix="mmspec-tests-")
    slow = [HealthCheck.too_slow]
    settings.register_profile("unhurried", deadline=None, suppress_health_check=slow)
    settings.load_profile("unhurried")
    if config.getoption("dist", "no") != "no":
        return  # other processes run the tests: this one needs no framework
    gc.disable()  # of what is imported and collected nothing becomes garbage
    importlib.import_module("mmspec_mlx")  # puts a fast BLAS before the one that MLX carries
    import torch

    torch.set_num_threads(1)


def pytest_collection_finish() -> None:
    """From here on collect garbage, but never look at what is there already."""
    gc.freeze()
    gc.enable()


def pytest_unconfigure() -> None:
    """Leave nothing behind."""
    rmtree(os.environ["MMSPEC_CACHE"], ignore_errors=True)


@pytest.fixture
def without(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], None]]:
    """`without("torch")`: that package is not installed, and nothing of ours has imported it."""
    ours = ("mmspec_torch", "mmspec_train")
    before = {name: sys.modules[name] for name in sys.modules if name.startswith(ours)}

    def remove(package: str) -> None:
        for name in before:
            del sys.modules[name]
        monkeypatch.setitem(sys.modules, package, None)

    yield remove
    for name in [name for name in sys.modules if name.startswith(ours)]:
        del sys.modules[name]
    sys.modules.update(before)


@pytest.fixture(scope="session", autouse=True)  # before what loads engines for many tests
def unmeasured() -> Iterator[None]:
    """Let engines time nothing: lengths are given or learnt, and `--exact auto` is too dear."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("mmspec.exactness.finding.price_of", lambda *_: 9.0)
        patch.setattr("mmspec.chat.engine.measure_first_costs", lambda *_: None)
        yield


@pytest.fixture(scope="session")
def checkpoints(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the session's checkpoints."""
    return tmp_path_factory.mktemp("checkpoints")


@pytest.fixture(scope="session")
def llava_path(checkpoints: Path) -> Path:
    """A LLaVA in the hub's layout, float32."""
    return factory.tiny_llava(checkpoints / "llava")


@pytest.fixture(scope="session")
def llama_path(checkpoints: Path) -> Path:
    """A Llama without eyes over the same tokenizer, float32."""
    return factory.tiny_llama(checkpoints / "llama", seed=1)


@pytest.fixture(scope="session")
def pair_paths(checkpoints: Path) -> tuple[Path, Path]:
    """A target and a draft that agrees with about half of its tokens, float32."""
    return factory.tiny_pair(checkpoints / "pair")


@pytest.fixture(scope="session")
def mlx_path(llava_path: Path, checkpoints: Path) -> Path:
    """The LLaVA of `llava_path` as a 4-bit MLX conversion, tower and projector quantized too."""
    return factory.quantized(llava_path, checkpoints / "mlx4", 4, 64)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    """A folder whose disk can be full or read-only."""
    with opened_disk(tmp_path / "disk") as disk:
        yield disk


@pytest.fixture
def open_terminal(tmp_path: Path):
    """A function that starts a command at a terminal of its own."""
    from support.terminal import Terminal  # skips where there are no pseudo-terminals

    opened = []

    def start(main: Callable[[list[str]], int], arguments: list[str], **settings: Any) -> Terminal:
        opened.append(Terminal(main, arguments, tmp_path, **settings))
        return opened[-1]

    yield start
    for terminal in opened:
        terminal.process.kill()
        os.close(terminal.fd)


@pytest.fixture(scope="session")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a tokenizer."""
    path = tmp_path_factory.mktemp("tokenizer")
    factory_layouts.write_tokenizer(path)
    return path
