"""Settings that must precede the import of `mlx.core`: a fast BLAS and IEEE float32.

MLX's Linux build links the reference BLAS, in which six rows cost five times as much as one. If
OpenBLAS is loaded first, MLX uses its symbols instead. macOS has Accelerate and needs nothing.
"""

import ctypes
import os
import sys

from mmspec.ground.errors import BackendError
from mmspec.ground.threads import check_threads, default_threads

LIBRARY = "libopenblas.so.0"
INSTALL = "apt install libopenblas0-pthread"


def prepare() -> None:
    """Load OpenBLAS if it is installed, and turn TensorFloat-32 off."""
    os.environ["MLX_ENABLE_TF32"] = "0"
    set_threads(None)


def set_threads(count: int | None) -> None:
    """Compute with this many threads; None: all cores but one, or the environment's number.

    OpenBLAS's threads spin while they wait, and the Python thread needs a core to enqueue
    operations. Raises UsageError for more than the cores, BackendError for another BLAS.
    """
    library = _openblas()
    if count is not None:
        check_threads(count)
        if library is None:
            blas = describe()["blas"]
            raise BackendError(f"`threads={count}`: MLX's BLAS is {blas}: leave it out")
    if library is not None:
        present = int(library.openblas_get_num_threads())
        library.openblas_set_num_threads(count or default_threads(present))


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
