"""A process that opens an image, and prints its size and the bytes of memory that took.

    python opening_process.py SMALL_IMAGE IMAGE

SMALL_IMAGE, of the same format, is opened first: what that loads is not counted.
"""

import sys
from pathlib import Path

from mmspec.prompt.images import open_picture


def memory(name: str = "VmHWM") -> int:
    """Bytes of this process's memory by Linux's name; VmHWM: the most that it has had."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return int(status.partition(f"{name}:")[2].split()[0]) * 1024


if __name__ == "__main__":
    open_picture(sys.argv[1])
    before = memory()
    picture = open_picture(sys.argv[2])
    sys.stdout.write(f"{picture.image.width} {picture.image.height} {memory() - before}")
