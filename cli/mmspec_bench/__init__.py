"""Benchmarks of mmspec: prompts, measurements, comparisons with other programs, reports."""

from collections.abc import Callable

Progress = Callable[[str], None]
"""Function that shows one line of progress."""
