"""A process that takes prefetched batches; the worker that makes them prints its process id.

    python prefetch_process.py wait|exit [FILE]

After the first batch it waits to be ended, or exits with the generator suspended. With FILE, a
worker that has been started goes on only once that file is there.
"""

import itertools
import os
import sys
import time
from pathlib import Path

from mmspec_train.run.prefetch import prefetch

WAITED_FOR = Path(sys.argv[2]) if len(sys.argv) > 2 else None

if __name__ == "__mp_main__":
    os.write(1, b"%d\n" % os.getpid())
    while WAITED_FOR and not WAITED_FOR.exists():
        time.sleep(0.02)


class Endless:
    """Batches that fill the pipe between two processes at once."""

    def batches(self, start):
        return (bytes(100_000) for _ in itertools.count(start))


class Crashing:
    """A batch, and then the end of the process that makes it."""

    def batches(self, start):
        yield start
        time.sleep(0.2)  # until the batch is sent
        os._exit(3)


if __name__ == "__main__":
    batches = prefetch(Endless(), 0)
    next(batches)
    os.write(1, b"taken\n")
    if sys.argv[1] == "wait":
        time.sleep(600)
