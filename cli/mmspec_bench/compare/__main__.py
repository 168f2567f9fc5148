"""Runs a program on a task: `python -m mmspec_bench.compare MODULE.CLASS TASK`."""

import sys
from importlib import import_module

from mmspec_bench.compare.script_io import Program, Task, main


def _load(task: Task) -> Program:
    module, _, name = sys.argv[1].rpartition(".")
    program: Program = getattr(import_module(f"{__package__}.{module}"), name)(task)
    return program


if __name__ == "__main__":  # not in processes that a program spawns
    main(_load)
