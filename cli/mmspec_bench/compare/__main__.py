"""Runs a program on the task in stdin: `python -m mmspec_bench.compare MODULE.FUNCTION`."""

from mmspec_bench.compare.script_io import main

if __name__ == "__main__":  # not in processes that a program spawns
    main()
