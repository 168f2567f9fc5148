"""Servers of scripted models and of the tiny pair, each started once."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from mmspec.chat.engine import load
from mmspec.chat.options import Options
from mmspec_cli.main import main
from support.live_server import Live, free_port, live
from support.scripted_engine import scripted_engine


@pytest.fixture(scope="session")
def scripted(directory: Path) -> Iterator[Live]:
    """A server of scripted models, which answer at once and need no framework."""
    with live(lambda: scripted_engine(directory)) as server:
        yield server


@pytest.fixture(scope="session")
def pair(pair_paths: tuple[Path, Path]) -> Iterator[Live]:
    """A server of the tiny pair on PyTorch, which drafts."""
    options = Options(max_new_tokens=12, gamma=3)
    with live(lambda: load(*map(str, pair_paths), backend="torch"), options) as server:
        yield server


@pytest.fixture(scope="session")
def mini() -> Iterator[Live]:
    """A server of the bundled pair on PyTorch."""
    options = Options(max_new_tokens=200, gamma=3)
    with live(lambda: load("mini", backend="torch"), options) as server:
        yield server


@pytest.fixture
def serve(open_terminal):
    """Function that lets a process serve at a terminal of its own; the terminal, and the address.

    It waits until the server answers.
    """

    def started(*options: str, **variables: str):
        command = ["serve", *options, "--backend", "torch", "--port", str(port := free_port())]
        terminal = open_terminal(main, command, columns=4000, **variables)
        terminal.wait("Ctrl-C ends the server")
        return terminal, f"http://127.0.0.1:{port}"

    return started


@pytest.fixture
def sdk():
    """Function that returns OpenAI's client of a server."""
    from openai import OpenAI  # which takes a second, in its own tests alone

    with ExitStack() as clients:

        def opened(server: Live) -> OpenAI:
            url = f"{server.client.base_url}/v1"
            return clients.enter_context(OpenAI(base_url=url, api_key="none", max_retries=0))

        yield opened
