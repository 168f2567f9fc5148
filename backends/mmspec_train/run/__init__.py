"""One training phase: steps, schedule, checkpoints, log."""
