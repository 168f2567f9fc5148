"""Functions shared by the measuring commands: loading models, parsing lists, writing reports."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mmspec.chat.engine import Engine, load
from mmspec.errors import UsageError
from mmspec_cli.terminal.render import Screen


def loaded(screen: Screen, where: dict[str, Any]) -> Engine:
    """Load the models that the options name, and show the engine's notes."""
    screen.progress("loading")
    engine = load(**where)
    for note in engine.notes:
        screen.note(note)
    return engine


def split(text: str) -> list[str]:
    """The comma-separated values, without duplicates."""
    return [*dict.fromkeys(part.strip() for part in text.split(",") if part.strip())]


def show_report(
    screen: Screen,
    report: dict[str, Any],
    out: Path | None,
    show: Callable[[], None],
    *,
    as_json: bool,
) -> None:
    """Show a report, or print it as JSON; then write it to `out`.

    Raises UsageError if it cannot be written, after showing it.
    """
    if as_json:
        screen.json(report)
    else:
        show()
    if out:
        try:
            out.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
        except OSError as error:
            raise UsageError(f"--out {out}: cannot be written: {error.strerror}") from error
