"""Run `mmspec` in this process, or in a process of its own."""

import multiprocessing
import os
import sys
from collections.abc import Callable
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import NamedTuple


class Result(NamedTuple):
    status: int
    out: str
    err: str


Run = Callable[..., Result]

# A fork of a process that has loaded PyTorch is there at once. macOS forbids such forks.
processes = multiprocessing.get_context("forkserver" if sys.platform == "linux" else "spawn")
processes.set_forkserver_preload(
    [
        "torch",
        "mmspec_torch.backend",
        "mmspec_cli.terminal.line_editor",
        "mmspec_bench.suite.runner",
    ]
)


def start_process(
    main: Callable[[list[str]], int],
    arguments: list[str],
    terminal: int,
    directory: Path,
    variables: dict[str, str],
) -> BaseProcess:
    """Start `main` in `directory`, with more variables in its environment.

    terminal: a descriptor that becomes its stdin, stdout and stderr.
    """
    run = main, arguments, Connection(os.dup(terminal)), directory, variables
    process = processes.Process(target=_run, args=run, daemon=True)
    process.start()
    return process


def _run(
    main: Callable[[list[str]], int],
    arguments: list[str],
    terminal: Connection,
    directory: Path,
    variables: dict[str, str],
) -> None:
    os.login_tty(os.dup(terminal.fileno()))
    terminal.close()
    sys.stdin = open(0, closefd=False)  # noqa: SIM115 - for as long as the process runs
    sys.stdout = open(1, "w", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", closefd=False)  # noqa: SIM115
    os.chdir(directory)
    os.environ.update(variables)
    sys.exit(main(arguments))


def execute(command: list[str]) -> int:
    """For `start_process`: become another program."""
    os.execvp(command[0], command)
