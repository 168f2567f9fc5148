"""The output of the measuring commands: tables or JSON, and a file."""

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import Any

from mmspec.chat.engine import Engine, load
from mmspec.chat.options import Options
from mmspec.ground.output_files import replace_text
from mmspec_bench.table import Table
from mmspec_terminal.options import JSON, OUT, together
from mmspec_terminal.render import Screen
from mmspec_terminal.setup import with_screen


@dataclass(frozen=True, slots=True)
class Output:
    """The screen, and the options --out and --json."""

    screen: Screen
    out: Path | None

    def report(self, report: dict[str, Any], show: Callable[[], None]) -> None:
        """Show a report, or print it as JSON; then write it to --out. Raises WriteError."""
        self.screen.report(report, show)
        if self.out:
            replace_text(self.out, json.dumps(report, indent=2) + "\n")


def with_output(command: Callable[..., Any]) -> Callable[..., Any]:
    """Decorator that adds --out, --json and --plain, passed as the first argument, an `Output`."""

    @wraps(command)
    def decorated(screen: Screen, out: Path | None, **values: Any) -> Any:
        return command(Output(screen, out), **values)

    return together(OUT, with_screen(JSON))(decorated)


def loaded(screen: Screen, models: dict[str, Any], options: Options) -> Engine:
    """Load the models that the options name, and show the engine's notes."""
    screen.progress("loading")
    engine = load(**models, options=options, ready=False, progress=screen.progress)
    screen.note(*engine.notes)
    return engine


def show_tables(screen: Screen, tables: Iterable[Table]) -> None:
    """Print every table with its note."""
    for number, table in enumerate(tables):
        screen.say(("\n" if number else "") + table.title)
        screen.table(table.columns, table.rows)
        if table.note:
            screen.say(table.note)


def split(text: str) -> list[str]:
    """The comma-separated values, without duplicates."""
    return [*dict.fromkeys(part.strip() for part in text.split(",") if part.strip())]
