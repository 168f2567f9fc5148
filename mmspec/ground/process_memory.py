"""How much memory this process has taken."""

import sys
from pathlib import Path

STATUS = Path("/proc/self/status")
"""Linux' own figures of this process."""


def process_peak() -> int:
    """The most bytes that this process had in memory at once."""
    if STATUS.exists():  # on Linux getrusage also counts the process that started this one
        fields = dict(line.split(":", 1) for line in STATUS.read_text().splitlines())
        return int(fields["VmHWM"].split()[0]) * 1024
    import resource  # absent on Windows

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
