"""What must be settled before `mlx.core` is imported: a fast BLAS and true float32.

MLX's Linux build carries the reference BLAS, in which six rows cost five times one row. With
OpenBLAS loaded first, its symbols win. macOS has Accelerate and needs nothing.
"""

import ctypes
import os
import sys
from functools import cache

LIBRARY = "libopenblas.so.0"
INSTALL = "apt install libopenblas0-pthread"
THREADS = "OPENBLAS_NUM_THREADS"
CORE = "OPENBLAS_CORETYPE"
AVX512 = {"skylakex", "cooperlake", "sapphirerapids"}
"""Cores for which OpenBLAS multiplies small matrices as they lie, without packing them first."""


def prepare() -> None:
    """Load OpenBLAS where there is one, and turn TensorFloat-32 off: float32 is IEEE float32.

    One core is left to the thread that lists operations while others are computed, for OpenBLAS's
    threads spin while they wait. OPENBLAS_NUM_THREADS overrides it.
    """
    os.environ["MLX_ENABLE_TF32"] = "0"
    library = _openblas()
    if library is not None and THREADS not in os.environ:
        library.openblas_set_num_threads(max(1, len(os.sched_getaffinity(0)) - 1))


def describe() -> dict[str, str | int]:
    """Say which BLAS multiplies matrices on the CPU, with how many threads, and what is better."""
    if sys.platform != "linux":
        return {"blas": "Accelerate"}
    library = _openblas()
    if library is None:
        return {"blas": "reference (slow)", "hint": f"faster with OpenBLAS: {INSTALL}"}
    threads = int(library.openblas_get_num_threads())
    found: dict[str, str | int] = {
        "blas": "OpenBLAS",
        "blas_core": _core(library),
        "blas_threads": threads,
    }
    if not os.environ.get(CORE):
        return found
    return found | {"hint": f"often faster with OpenBLAS's own choice of kernels: unset {CORE}"}


@cache
def multiplies_small_as_they_lie() -> bool:
    """Say whether many small products are cheaper than one large one."""
    library = _openblas()
    return library is not None and _core(library).casefold() in AVX512


def _core(library: ctypes.CDLL) -> str:
    """The processor whose kernels OpenBLAS runs: what it found, or OPENBLAS_CORETYPE."""
    try:
        name = library.openblas_get_corename
    except AttributeError:  # another library under OpenBLAS's name
        return "unknown"
    name.restype = ctypes.c_char_p
    return str(name().decode())


def _openblas() -> ctypes.CDLL | None:
    if sys.platform != "linux":
        return None
    try:
        return ctypes.CDLL(LIBRARY, mode=ctypes.RTLD_GLOBAL)
    except OSError:
        return None
