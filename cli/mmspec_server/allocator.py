"""One heap for all threads, where the C library would give each of them its own.

A thread's own heap keeps what its requests freed, for that thread alone: with many requests the
memory of the process grows by tens of megabytes that nobody uses.
"""

import ctypes
import os
import sys
from collections.abc import Mapping

_ARENA_MAX = -8
"""`M_ARENA_MAX` of glibc's malloc.h: the parameter that is the most heaps."""
CHOSEN = ("MALLOC_ARENA_MAX", "GLIBC_TUNABLES")
"""Environment variables with which a user chooses how glibc keeps memory."""


def share_one_heap(environment: Mapping[str, str] = os.environ) -> bool:
    """Let all threads allocate from one heap; False where the user chose or there is no glibc.

    Has an effect on threads that allocate for the first time after it.
    """
    if sys.platform != "linux" or any(name in environment for name in CHOSEN):
        return False
    try:
        return bool(ctypes.CDLL(None).mallopt(_ARENA_MAX, 1))
    except AttributeError:  # another C library than glibc
        return False
