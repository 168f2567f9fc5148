"""`mmspec serve` as a process, with what it says in a file."""

import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.process import BaseProcess
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import httpx2

from mmspec_cli.main import main
from support.commands import start_process
from support.live_server import CHAT, PATIENCE

QUESTION = {"messages": [{"role": "user", "content": "What?"}], "max_tokens": 4}


def free_port() -> int:
    """A port that nothing listens on."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


@dataclass(frozen=True)
class Served:
    """A server that starts."""

    process: BaseProcess
    url: str
    log: Path

    @property
    def said(self) -> str:
        """What it wrote to stderr."""
        return self.log.read_text() if self.log.exists() else ""

    def wait(self) -> None:
        """Wait until it answers."""
        end = monotonic() + PATIENCE
        while "answers at" not in self.said:
            assert monotonic() < end
            assert self.process.is_alive(), self.said
            sleep(0.02)

    def ask(self, **fields: Any) -> httpx2.Response:
        """The reply to a question."""
        return httpx2.post(self.url + CHAT, json=QUESTION | fields, timeout=PATIENCE)

    def metrics(self) -> str:
        """What it counts, in Prometheus' text format."""
        return httpx2.get(f"{self.url}/metrics", timeout=PATIENCE).text

    @contextmanager
    def stream(self, **fields: Any) -> Iterator[Iterator[str]]:
        """Context that yields the lines of a streamed reply."""
        asked = QUESTION | fields | {"stream": True}
        with httpx2.stream("POST", self.url + CHAT, json=asked, timeout=PATIENCE) as reply:
            yield reply.iter_lines()


def serve(
    arguments: list[str],
    log: Path,
    port: int,
    command: Callable[[list[str]], int] = main,
    **variables: str,
) -> Served:
    """Start a server; `command` in place of `mmspec`."""
    words = ["serve", *arguments, "--port", str(port)]
    process = start_process(_Logged(command, log), words, **variables)
    return Served(process, f"http://127.0.0.1:{port}", log)


@dataclass(frozen=True)
class _Logged:
    """A command with its stderr in a file."""

    command: Callable[[list[str]], int]
    log: Path

    def __call__(self, arguments: list[str]) -> int:
        sys.stderr = self.log.open("w", buffering=1)  # until the process ends
        return self.command(arguments)
