"""Comparison with other projects: one script per program, run in turn in separate processes."""
