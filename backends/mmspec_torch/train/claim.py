"""What a directory was begun with, so that a run goes on only with the same."""

import json
from pathlib import Path
from typing import Any

from mmspec import errors

OPTIONS = {
    "longest": "--answer-tokens",
    "conversations": "the number of conversations (--samples)",
    "method.depth": "--rollout",
    "method.loss.divergence": "--loss",
    "method.loss.token": "--token-weight",
    "method.loss.feature": "--feature-weight",
}
"""How a person calls what is written there under another name."""


def check(file: Path, about: dict[str, Any], remedy: str) -> None:
    """Find in a file what `about` says, if the file is there.

    Raises UsageError, naming the first difference and the remedy, where it says otherwise.
    """
    if not file.exists():
        return
    found = _leaves(json.loads(file.read_text(encoding="utf-8")))
    for name, wanted in _leaves(json.loads(json.dumps(about))).items():
        if found.get(name) != wanted:
            raise errors.UsageError(
                f"{file}: {_option(name)} is {found.get(name)!r}, but is now {wanted!r}: {remedy}"
            )


def claim(file: Path, about: dict[str, Any], remedy: str) -> None:
    """Write `about` to a file, or find the same there.  Raises UsageError as `check` does."""
    check(file, about, remedy)
    if not file.exists():
        file.parent.mkdir(parents=True, exist_ok=True)
        partial = file.with_name(f"{file.name}.partial")
        partial.write_text(json.dumps(about, indent=1) + "\n", encoding="utf-8")
        partial.replace(file)


def _leaves(about: dict[str, Any], under: str = "") -> dict[str, Any]:
    """What is said, by dotted names."""
    leaves: dict[str, Any] = {}
    for key, value in about.items():
        inner = isinstance(value, dict)
        leaves |= _leaves(value, f"{under}{key}.") if inner else {f"{under}{key}": value}
    return leaves


def _option(name: str) -> str:
    if name in OPTIONS:
        return OPTIONS[name]
    last = name.rpartition(".")[2].replace("_", "-")
    return f"--{last}" if name.startswith("method.") else name
