"""Paths as people type them."""

import os
from pathlib import Path


def typed_path(path: str | Path) -> Path:
    """The path, ~ and ~NAME standing for a home; as it is where nobody has that name."""
    return Path(os.path.expanduser(path))  # noqa: PTH111 - Path.expanduser raises for no such name
