"""The parent's end: a worker process, started, asked and ended."""

import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from queue import Empty, Queue
from tempfile import TemporaryFile
from threading import Thread
from time import perf_counter
from typing import Any

from mmspec.bench.peers.wire import Question, Reply, Setup, encode, one_line, read_reply

LIMIT_SECONDS = 900.0
"""How long a worker may take to load or to answer."""


class PeerError(Exception):
    """Why a peer cannot run, in one line for the table; it stops nothing else."""


class Worker:
    """One process that holds one model; raises PeerError wherever it does not do as asked."""

    def __init__(
        self,
        command: Sequence[str],
        environment: Mapping[str, str] | None = None,
        limit_seconds: float = LIMIT_SECONDS,
    ) -> None:
        """Start the process; `environment` is set over this process's own."""
        self._limit = limit_seconds
        self._stderr = TemporaryFile("w+", encoding="utf-8", errors="replace")  # noqa: SIM115
        self._started = perf_counter()
        try:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._stderr,
                text=True,
                env={**os.environ, **(environment or {})},
            )
        except OSError as error:
            self._stderr.close()
            raise PeerError(f"cannot start {command[0]}: {error.strerror}") from error
        self._lines: Queue[str] = Queue()
        self._reader = Thread(target=self._read, daemon=True)
        self._reader.start()

    def load(self, setup: Setup) -> tuple[dict[str, Any], float]:
        """What the worker says of itself, and the seconds from its start to being ready."""
        ready = self._exchange(setup, "ready")
        return ready, perf_counter() - self._started

    def ask(self, question: Question) -> Reply:
        """The answer to one question."""
        try:
            return read_reply(self._exchange(question, "reply"))
        except (TypeError, ValueError) as error:
            raise PeerError(str(error)) from error

    def close(self) -> None:
        """End the process, which frees what it holds."""
        assert self._process.stdin
        self._process.kill()
        self._process.wait()
        self._reader.join()
        for stream in (self._process.stdin, self._process.stdout, self._stderr):
            _close(stream)

    def _exchange(self, message: Setup | Question, expected: str) -> dict[str, Any]:
        assert self._process.stdin
        try:
            self._process.stdin.write(encode(message))
            self._process.stdin.flush()
        except OSError:
            raise self._ended() from None
        value = self._heard()
        if "error" in value:
            raise PeerError(value["error"])
        found: dict[str, Any] = value[expected]
        return found

    def _heard(self) -> dict[str, Any]:
        try:
            line = self._lines.get(timeout=self._limit)
        except Empty:
            self._process.kill()  # or its late answer would be read as the next question's
            raise PeerError(f"no answer within {self._limit:g} seconds") from None
        if not line:
            raise self._ended()
        value: dict[str, Any] = json.loads(line)
        return value

    def _ended(self) -> PeerError:
        status = self._process.wait()
        self._stderr.seek(0)
        last = one_line(self._stderr.readlines())
        return PeerError(f"ended with status {status}" + (f": {last}" if last else ""))

    def _read(self) -> None:
        assert self._process.stdout
        for line in self._process.stdout:
            self._lines.put(line)
        self._lines.put("")


def _close(stream: Any) -> None:
    try:
        stream.close()
    except OSError:  # what was never read by a process that is gone
        return
