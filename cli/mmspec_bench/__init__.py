"""Benchmarks: what they ask, measurements, comparisons and reports.

The program that is measured is `mmspec`.
"""

from collections.abc import Callable

Progress = Callable[[str], None]
"""Function that shows a line about what is going on."""
