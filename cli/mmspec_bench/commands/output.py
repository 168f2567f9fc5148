"""What the measuring commands share: models, tables, and lists of values."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from mmspec.checkpoints.cards import pair_of
from mmspec.checkpoints.hub import resolve
from mmspec.drafters.views import PLAIN
from mmspec.ground.errors import WriteError
from mmspec_bench.table import Table
from mmspec_terminal.render import Screen

SMALLER = "a smaller --count or --repeats takes less time"
"""What to do about a measurement that takes too long."""


def resolve_pair(model: str, draft: str, backend: str) -> tuple[str, Path, Path | None]:
    """The target's name and directory, and the draft's (None for none), in a backend's format."""
    name = "mini" if model == "auto" else model
    pair = pair_of(name) if draft == "auto" else draft
    drafts = resolve(pair, backend) if pair not in (None, PLAIN.spec) else None
    return name, resolve(name, backend), drafts


def show_tables(screen: Screen, tables: Iterable[Table]) -> None:
    """Print every table with its note."""
    for number, table in enumerate(tables):
        screen.say(("\n" if number else "") + table.title)
        screen.table(table.columns, table.rows)
        screen.say(table.note)


@contextmanager
def note_when_stopped(
    screen: Screen, note: str, tables: Callable[[], Iterable[Table]] = tuple
) -> Iterator[None]:
    """Show a note on what remains, and tables, if Ctrl-C, a signal or a full disk ends it."""
    try:
        yield
    except (KeyboardInterrupt, SystemExit, WriteError):
        screen.note(f"stopped: {note}")
        if not screen.as_json:
            show_tables(screen, tables())
        raise


def split(text: str) -> list[str]:
    """The comma-separated values, without duplicates."""
    return [*dict.fromkeys(part.strip() for part in text.split(",") if part.strip())]
