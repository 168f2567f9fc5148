"""What the measuring commands have in common: loading, and a report that is told and kept."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mmspec.engine import Engine, load
from mmspec.errors import UsageError
from mmspec_cli.render import Screen


def loaded(screen: Screen, where: dict[str, Any]) -> Engine:
    """Load what `where` says, and pass on what the engine has to say of it."""
    screen.progress("loading")
    engine = load(**where)
    for note in engine.notes:
        screen.note(note)
    return engine


def tell(
    screen: Screen, value: dict[str, Any], out: Path | None, shown: Callable[[], None] | None
) -> None:
    """Show a report, or print it as JSON; then write it where it is wanted.

    Raises UsageError where it cannot be written, which has then been shown.
    """
    if shown:
        shown()
    else:
        screen.json(value)
    if out:
        try:
            out.write_text(json.dumps(value, indent=2) + "\n", encoding="utf-8")
        except OSError as error:
            raise UsageError(f"--out {out}: cannot be written: {error.strerror}") from error
