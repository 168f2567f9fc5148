"""The worker's end: load once, then answer questions until the pipe closes.

Standard library alone, as `wire`.
"""

import json
import os
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any, Protocol, TextIO

from mmspec.bench.peers.wire import Question, Reply, Setup, encode, one_line
from mmspec.errors import MmspecError


class Clock:
    """When each part of an answer was known."""

    def __init__(self) -> None:
        """Start now, as the question has been read."""
        self._started = perf_counter()
        self.events: list[tuple[int, float]] = []

    def known(self, tokens: int) -> None:
        """`tokens` are known now, counted from the answer's start."""
        if tokens > (self.events[-1][0] if self.events else 0):
            self.events.append((tokens, perf_counter() - self._started))


class Peer(Protocol):
    """A loaded model, used as its project documents."""

    def answer(self, question: Question, clock: Clock) -> tuple[list[int], int]:
        """Answer from cold caches; the tokens and the target forwards they took."""
        ...

    def describe(self) -> dict[str, Any]:
        """Versions and threads, for provenance."""
        ...

    def device_bytes(self) -> int:
        """Peak of the accelerator's own counter; 0 on a CPU."""
        ...


def serve(load: Callable[[Setup], Peer]) -> None:
    """Speak with the parent on stdin and stdout; what libraries print goes to stderr.

    The first line is a `Setup`, answered with `{"ready": ...}`, every other a `Question`,
    answered with `{"reply": ...}`; either with `{"error": LINE}` where it cannot be.
    """
    told = _private_stdout()
    asked = (json.loads(line) for line in sys.stdin)
    peer = _said(told, lambda: _loaded(load, Setup(**next(asked))))
    for message in asked if peer else ():
        _said(told, partial(_answered, peer, Question(**message)))


def _loaded(load: Callable[[Setup], Peer], setup: Setup) -> tuple[Peer, str]:
    peer = load(setup)
    return peer, json.dumps({"ready": peer.describe() | {"libraries": libraries()}}) + "\n"


def _answered(peer: Any, question: Question) -> tuple[Any, str]:
    clock = Clock()
    tokens, rounds = peer.answer(question, clock)
    reply = Reply(tokens, clock.events, rounds, process_bytes(), peer.device_bytes())
    return reply, f'{{"reply": {encode(reply).strip()}}}\n'


def _said(told: TextIO, work: Callable[[], tuple[Any, str]]) -> Any:
    """Do the work and tell what came of it; None where an error came."""
    try:
        result, line = work()
    except Exception as error:  # noqa: BLE001 - whatever another project raises is its reason
        result, line = None, json.dumps({"error": _reason(error)}) + "\n"
    told.write(line)
    told.flush()
    return result


def _reason(error: Exception) -> str:
    if isinstance(error, ModuleNotFoundError):
        return f"{error.name} is not installed for {sys.executable}"
    text = one_line(str(error).splitlines()[:1])
    if isinstance(error, MmspecError):
        return text
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _private_stdout() -> TextIO:
    """The pipe to the parent, out of reach of anything that prints."""
    pipe = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    return pipe


def process_bytes() -> int:
    """Peak resident memory of this process."""
    status = Path("/proc/self/status")
    if status.exists():  # what getrusage says there includes the process that started this one
        fields = dict(line.split(":", 1) for line in status.read_text().splitlines())
        return int(fields["VmHWM"].split()[0]) * 1024
    import resource  # absent on Windows

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def libraries() -> list[str]:
    """File names of the loaded libraries that multiply matrices; empty off Linux."""
    maps = Path("/proc/self/maps")
    files = {line.split("/")[-1] for line in maps.read_text().splitlines()} if maps.exists() else ()
    return sorted(file for file in files if any(name in file for name in ("blas", "mkl", "dnnl")))
