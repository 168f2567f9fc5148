"""A process that takes prefetched batches; the worker that makes them prints its process id.

    python prefetch_process.py [FILE]

With FILE, a worker that has been started goes on only once that file is there.
"""

import itertools
import os
import sys
import time
from pathlib import Path

from mmspec_train.run.prefetch import prefetch

WAITED_FOR = Path(sys.argv[1]) if len(sys.argv) > 1 else None

if __name__ == "__mp_main__":
    os.write(1, b"%d\n" % os.getpid())
    while WAITED_FOR and not WAITED_FOR.exists():
        time.sleep(0.02)


class Endless:
    """Batches that fill the pipe between two processes at once."""

    def batches(self, start):
        return (bytes(100_000) for _ in itertools.count(start))


if __name__ == "__main__":
    batches = prefetch(Endless(), 0)
    next(batches)
    os.write(1, b"taken\n")
    time.sleep(600)
