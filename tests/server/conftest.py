"""Servers of scripted models and of the tiny pair, each started once."""

from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import pytest

from mmspec.chat.engine import load
from mmspec.chat.options import Options
from support.live_server import Live, live
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
    with live(lambda: load("mini", backend="torch"), Options(max_new_tokens=40)) as server:
        yield server


@pytest.fixture
def sdk():
    """Function that returns OpenAI's client of a server."""
    from openai import OpenAI  # which takes a second, in its own tests alone

    with ExitStack() as clients:

        def opened(server: Live) -> OpenAI:
            url = f"{server.client.base_url}/v1"
            return clients.enter_context(OpenAI(base_url=url, api_key="none", max_retries=0))

        yield opened


@pytest.fixture(scope="module")
def window():
    from support.browser import browser  # needs selenium, which only the page's tests do

    with browser() as it:
        yield it


@pytest.fixture
def page(window):
    """The window, empty; afterwards nothing may have been refused by the browser."""
    window.driver.get("about:blank")
    window.resize(1000, 900)
    window.complaints()
    yield window
    window.script("sessionStorage.clear()")
    refused = ("Content Security Policy", "TypeError", "ReferenceError", "TrustedHTML", "Uncaught")
    assert not [line for line in window.complaints() if any(word in line for word in refused)]


@pytest.fixture
def speaking(page, directory, monkeypatch):
    """Function that returns a context in which the page of a speaker's server is open."""
    from support.browser import speaking

    return partial(speaking, page, directory, monkeypatch)
