"""Batches made by another process, which does not outlive the one that takes them."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from mmspec.ground.errors import MmspecError
from mmspec_train.run.prefetch import prefetch
from support.prefetch_process import Crashing

PROGRAM = Path(__file__).parents[1] / "support/prefetch_process.py"


def start(*arguments):
    """The process, and its worker's process id once there is one."""
    command = [sys.executable, PROGRAM, *arguments]
    taker = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    return taker, int(taker.stdout.readline())


def last_words(taker, worker):
    """What was printed to stderr once every process that could still write has ended."""
    try:
        return taker.communicate(timeout=10)[1]
    except subprocess.TimeoutExpired:
        os.kill(worker, signal.SIGKILL)
        taker.communicate()
        pytest.fail("the worker goes on")


def test_a_worker_ends_with_a_parent_that_is_killed():
    taker, worker = start("wait")
    assert taker.stdout.readline() == "taken\n"
    taker.kill()
    last_words(taker, worker)


def test_a_parent_exits_in_silence_with_its_batches_half_taken():
    taker, worker = start("exit")
    assert last_words(taker, worker) == ""
    assert taker.returncode == 0


def test_a_worker_ends_that_began_when_its_parent_had_gone(tmp_path):
    taker, worker = start("wait", tmp_path / "go")
    taker.kill()
    taker.wait()
    (tmp_path / "go").touch()
    last_words(taker, worker)


def test_ctrl_c_ends_a_worker_that_has_not_begun(tmp_path):
    taker, worker = start("wait", tmp_path / "never")
    taker.send_signal(signal.SIGINT)
    assert last_words(taker, worker).splitlines()[-1] == "KeyboardInterrupt"


def test_a_worker_that_crashes_is_reported_with_its_status(monkeypatch):
    monkeypatch.setattr(sys, "argv", ["pytest"])
    batches = prefetch(Crashing(), 7)
    assert next(batches) == 7
    with pytest.raises(MmspecError, match=r"ended with status 3; .* goes on from the last saved"):
        next(batches)
