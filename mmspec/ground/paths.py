"""Expands paths as people type them."""

import os
from pathlib import Path


def expand_home(path: str | Path) -> Path:
    """`path` with ~ and ~NAME expanded; unchanged if there is no such user."""
    return Path(os.path.expanduser(path))  # noqa: PTH111 - Path.expanduser raises for no such name
