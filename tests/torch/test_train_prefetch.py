"""Batches made by another process, which does not outlive the one that takes them."""

import os
import signal
import subprocess
import sys
from pathlib import Path

PROGRAM = Path(__file__).parents[1] / "support/prefetch_process.py"


def start(*arguments):
    """The process, and its worker's process id once there is one."""
    command = [sys.executable, PROGRAM, *arguments]
    taker = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    return taker, int(taker.stdout.readline())


def has_ended(taker, worker):
    """Whether every process that could still write has ended, the worker among them."""
    try:
        taker.communicate(timeout=10)
    except subprocess.TimeoutExpired:
        os.kill(worker, signal.SIGKILL)
        taker.communicate()
        return False
    return True


def test_a_worker_ends_with_a_parent_that_is_killed():
    taker, worker = start()
    assert taker.stdout.readline() == "taken\n"
    taker.kill()
    assert has_ended(taker, worker)


def test_a_worker_ends_that_began_when_its_parent_had_gone(tmp_path):
    taker, worker = start(tmp_path / "go")
    taker.kill()
    taker.wait()
    (tmp_path / "go").touch()
    assert has_ended(taker, worker)
