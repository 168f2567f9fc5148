"""How many CPU threads compute."""

import os
import sys

from mmspec.ground.errors import UsageError
from mmspec.ground.settings import is_whole

VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
"""Environment variables with which a user limits the threads of frameworks."""


def cores() -> int:
    """CPU cores that this process may use."""
    if sys.platform == "linux":
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def default_threads(present: int) -> int:
    """Threads to compute with where a framework would take `present`: at most all cores but one.

    All threads wait for the slowest, so one core that another process takes would slow all. A
    number that the user set in the environment holds.
    """
    if any(name in os.environ for name in VARIABLES):
        return present
    return min(present, max(1, cores() - 1))


def check_threads(count: int) -> None:
    """Raise UsageError for a number of threads that the cores cannot run at once."""
    if not is_whole(count, 1) or count > cores():
        raise UsageError(
            f"`threads={count!r}`: give a number from 1 to {cores()}, the cores that this process "
            "may use, or leave it out"
        )
