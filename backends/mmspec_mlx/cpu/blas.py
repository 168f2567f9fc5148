"""Settings that must precede the import of `mlx.core`: a fast BLAS and IEEE float32.

MLX's Linux build links the reference BLAS, in which six rows cost five times as much as one. If
OpenBLAS is loaded first, MLX uses its symbols instead. macOS has Accelerate and needs nothing.
"""

import ctypes
import os
import sys

LIBRARY = "libopenblas.so.0"
INSTALL = "apt install libopenblas0-pthread"
THREADS = "OPENBLAS_NUM_THREADS"


def prepare() -> None:
    """Load OpenBLAS if it is installed, and turn TensorFloat-32 off.

    OpenBLAS gets all cores but one: its threads spin while they wait, and the Python thread needs a
    core to enqueue operations. OPENBLAS_NUM_THREADS overrides this.
    """
    os.environ["MLX_ENABLE_TF32"] = "0"
    library = _openblas()
    if library is not None and THREADS not in os.environ:
        library.openblas_set_num_threads(max(1, len(os.sched_getaffinity(0)) - 1))


def describe() -> dict[str, str | int]:
    """The CPU's BLAS and its number of threads, or a hint how to get a faster one."""
    if sys.platform != "linux":
        return {"blas": "Accelerate"}
    library = _openblas()
    if library is None:
        return {"blas": "reference (slow)", "hint": f"faster with OpenBLAS: {INSTALL}"}
    return {"blas": "OpenBLAS", "blas_threads": int(library.openblas_get_num_threads())}


def _openblas() -> ctypes.CDLL | None:
    if sys.platform != "linux":
        return None
    try:
        return ctypes.CDLL(LIBRARY, mode=ctypes.RTLD_GLOBAL)
    except OSError:
        return None
