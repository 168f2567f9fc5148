"""Batches made ahead in another process, which does not outlive the one that takes them."""

import os
import signal
import subprocess
import sys
from pathlib import Path

PROGRAM = Path(__file__).with_name("ahead_process.py")


def begun(*given):
    """The process, and the worker's own words once there is one."""
    command = [sys.executable, PROGRAM, *given]
    taker = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    return taker, int(taker.stdout.readline())


def ended(taker, worker):
    """Whether everybody who could still write has gone, the worker among them."""
    try:
        taker.communicate(timeout=10)
    except subprocess.TimeoutExpired:
        os.kill(worker, signal.SIGKILL)
        taker.communicate()
        return False
    return True


def test_a_worker_ends_with_a_parent_that_is_killed():
    taker, worker = begun()
    assert taker.stdout.readline() == "taken\n"
    taker.kill()
    assert ended(taker, worker)


def test_a_worker_ends_that_began_when_its_parent_had_gone(tmp_path):
    taker, worker = begun(tmp_path / "go")
    taker.kill()
    taker.wait()
    (tmp_path / "go").touch()
    assert ended(taker, worker)
