"""CPU threads: what the user set stands; otherwise a core is left and threads wait briefly."""

import os
import subprocess
import sys

import pytest

from mmspec.ground import threads as cpu_threads
from mmspec.ground.errors import UsageError
from mmspec.ground.threads import VARIABLES, default_threads
from mmspec_torch.backend import TorchBackend
from mmspec_torch.device.openmp import SPINS, WAITING, short_waits

SCRIPT = """
import os
before = dict(os.environ)
from mmspec_torch.backend import TorchBackend
assert dict(os.environ) == before
backend = TorchBackend()
backend.set_threads(None)
print(backend.describe()["threads"])
"""


@pytest.mark.skipif(sys.platform != "linux", reason="GNU's OpenMP is PyTorch's on Linux")
def test_openmp_waits_briefly_on_all_cores_but_one():
    """OpenMP itself prints what it read."""
    others = {key: text for key, text in os.environ.items() if key not in (*VARIABLES, *WAITING)}
    env, command = others | {"OMP_DISPLAY_ENV": "verbose"}, [sys.executable, "-c", SCRIPT]
    run = subprocess.run(command, env=env, capture_output=True, text=True, check=True)
    read = dict(line.split(" = ") for line in run.stderr.splitlines() if " = " in line)
    read = {name.strip(): text.strip("'") for name, text in read.items()}
    assert int(run.stdout) == max(1, cpu_threads.cores() - 1)
    assert SPINS in (None, read["GOMP_SPINCOUNT"])
    assert read["OMP_WAIT_POLICY"] == "PASSIVE"


def test_the_environment_names_short_waits_only_in_the_block():
    for named in ({}, {"OMP_WAIT_POLICY": "ACTIVE"}, {"GOMP_SPINCOUNT": "5"}):
        environment = dict(named)
        with short_waits(environment):
            assert environment == (named or {"GOMP_SPINCOUNT": SPINS})
        assert environment == named


def test_one_core_is_left_and_no_thread_is_added(monkeypatch):
    """Threads that no core would run are refused."""
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    for cores, present, threads in ((1, 1, 1), (16, 16, 15), (16, 8, 8), (16, 1, 1), (2, 2, 1)):
        monkeypatch.setattr(cpu_threads, "cores", lambda count=cores: count)
        assert default_threads(present) == threads
    for count in (-1, 0, 3):
        with pytest.raises(UsageError, match=f"`threads={count}`: give a number from 1 to 2"):
            TorchBackend().set_threads(count)
    monkeypatch.setenv(VARIABLES[1], "4")
    assert default_threads(present) == present
