"""One training phase: steps, schedule, checkpoints, log, processes.

The modules to train are in `heads`, `drafts` and `mini`.
"""
