"""What a directory was begun with, so that a run goes on only with the same."""

import json
from pathlib import Path
from typing import Any

from mmspec import errors


def claim(file: Path, about: dict[str, Any], remedy: str) -> None:
    """Write `about` to a file, or find the same there.

    Raises UsageError, naming the first difference and the remedy, where the file says otherwise.
    """
    about = json.loads(json.dumps(about))
    if not file.exists():
        file.parent.mkdir(parents=True, exist_ok=True)
        partial = file.with_name(f"{file.name}.partial")
        partial.write_text(json.dumps(about, indent=1) + "\n", encoding="utf-8")
        partial.replace(file)
        return
    found = json.loads(file.read_text(encoding="utf-8"))
    for key in about:
        if found.get(key) != about[key]:
            raise errors.UsageError(
                f"{file}: {key} is {found.get(key)!r}, but is now {about[key]!r}: {remedy}"
            )
