"""Provenance of measurements: command, commit, versions, device, threads, date."""

import os
import platform
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from mmspec.decoding.contract import Backend
from mmspec.ground.threads import VARIABLES

PACKAGES = (
    *("mmspec", "numpy", "msgspec", "pillow", "tokenizers", "jinja2", "huggingface_hub"),
    *("click", "rich", "torch", "mlx", "transformers", "mlx-lm", "pyarrow"),
)


def provenance(backends: Sequence[Backend]) -> dict[str, Any]:
    """Everything needed to repeat a measurement; JSON-serializable."""
    return {
        "command": list(sys.argv),
        "commit": commit(),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "processor": platform.processor() or platform.machine(),
        **environment(),
        "backends": [backend.describe() for backend in backends],
    }


def environment() -> dict[str, Any]:
    """Python, system, cores, thread limits and versions of packages; JSON-serializable."""
    return {
        "python": platform.python_version(),
        "platform": platform.platform(),
        "cores": os.cpu_count(),
        "threads": {name: os.environ.get(name) for name in VARIABLES},
        "versions": versions(),
    }


def versions() -> dict[str, str | None]:
    """Versions of the relevant packages, None for those not installed; imports no package."""
    numbers = dict[str, str | None].fromkeys(PACKAGES)
    for name in PACKAGES:
        with suppress(PackageNotFoundError):
            numbers[name] = version(name)
    return numbers


def commit() -> str | None:
    """The git commit of the source tree, with '+' if files changed; None outside a git tree."""
    root = Path(__file__).resolve().parents[2]
    if not (root / ".git").exists():
        return None
    command = ["git", "describe", "--always", "--abbrev=12", "--exclude=*", "--dirty=+"]
    try:
        run = subprocess.run(
            command, cwd=root, capture_output=True, text=True, timeout=10, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return run.stdout.strip()
