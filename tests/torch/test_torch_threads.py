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

CORES = cpu_threads.cores()
SCRIPT = """
import os
before = dict(os.environ)
from mmspec_torch.backend import TorchBackend
assert dict(os.environ) == before
backend = TorchBackend()
backend.set_threads(None)
print(backend.describe()["threads"])
"""


@pytest.mark.parametrize(
    ("named", "spins", "threads"),
    [
        ({}, SPINS, max(1, CORES - 1)),
        ({"OMP_WAIT_POLICY": "ACTIVE", "OMP_NUM_THREADS": str(CORES)}, None, CORES),
        ({"GOMP_SPINCOUNT": "77", "MKL_NUM_THREADS": str(CORES)}, "77", CORES),
    ],
)
@pytest.mark.skipif(sys.platform != "linux", reason="GNU's OpenMP is PyTorch's on Linux")
def test_openmp_waits_briefly_on_all_cores_but_one_unless_the_environment_says_otherwise(
    named, spins, threads
):
    """OpenMP itself prints what it read."""
    others = {key: text for key, text in os.environ.items() if key not in (*VARIABLES, *WAITING)}
    run = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        env=others | named | {"OMP_DISPLAY_ENV": "verbose"},
        capture_output=True,
        text=True,
        check=True,
    )
    read = dict(line.split(" = ") for line in run.stderr.splitlines() if " = " in line)
    read = {name.strip(): text.strip("'") for name, text in read.items()}
    assert int(run.stdout) == threads
    assert spins in (None, read["GOMP_SPINCOUNT"])
    assert read["OMP_WAIT_POLICY"] == named.get("OMP_WAIT_POLICY", "PASSIVE")


@pytest.mark.parametrize("named", [{}, {"OMP_WAIT_POLICY": "ACTIVE"}, {"GOMP_SPINCOUNT": "5"}])
def test_the_environment_names_short_waits_only_in_the_block(named):
    environment = dict(named)
    with short_waits(environment):
        assert environment == (named or {"GOMP_SPINCOUNT": SPINS})
    assert environment == named


@pytest.mark.parametrize(
    ("cores", "present", "threads"), [(1, 1, 1), (2, 2, 1), (16, 16, 15), (16, 8, 8), (16, 1, 1)]
)
def test_one_core_is_left_and_no_thread_is_added(monkeypatch, cores, present, threads):
    monkeypatch.setattr(cpu_threads, "cores", lambda: cores)
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    assert default_threads(present) == threads
    monkeypatch.setenv(VARIABLES[1], "4")
    assert default_threads(present) == present


@pytest.mark.parametrize("count", [-1, 0, 3])
def test_threads_that_no_core_would_run_are_refused(monkeypatch, count):
    monkeypatch.setattr(cpu_threads, "cores", lambda: 2)
    with pytest.raises(UsageError, match=f"`threads={count}`: give a number from 1 to 2"):
        TorchBackend().set_threads(count)
