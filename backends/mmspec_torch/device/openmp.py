"""How long PyTorch's threads on a CPU wait for each other actively.

OpenMP's threads wait actively at the end of every operation, by default for milliseconds. If
another process has taken the core of one of them, the others keep their cores from it meanwhile.
"""

import os
from collections.abc import Iterator, MutableMapping
from contextlib import contextmanager

SPINS = "1000"
"""Turns of active waiting; what GNU's OpenMP takes itself with more threads than cores."""
WAITING = ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT")
"""Environment variables with which a user chooses how threads wait."""


@contextmanager
def short_waits(environment: MutableMapping[str, str] = os.environ) -> Iterator[None]:
    """Let OpenMP, if it is loaded in the block, wait actively for SPINS turns only.

    A user's own setting stands.  After the block the environment is as before.
    """
    if any(name in environment for name in WAITING):
        yield
        return
    environment["GOMP_SPINCOUNT"] = SPINS
    try:
        yield
    finally:
        del environment["GOMP_SPINCOUNT"]
