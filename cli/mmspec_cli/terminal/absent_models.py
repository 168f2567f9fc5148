"""Models that are not on this machine: pulls them, and offers that at a terminal."""

import signal
from collections.abc import Callable
from pathlib import Path

from mmspec.chat.engine import Engine
from mmspec.checkpoints.cards import pair_of
from mmspec.checkpoints.hub import pull
from mmspec.checkpoints.recommendation import pair_size
from mmspec.ground.errors import AbsentError
from mmspec.ground.progress import Progress
from mmspec_cli.terminal.interrupt import handle_ending
from mmspec_terminal.render import Screen


def pull_pair(
    name: str, backend: str, note: Progress, revision: str | None = None, *, source: str = ""
) -> list[Path]:
    """Download a model and the draft that its card names; returns their directories.

    backend: in whose format.  source: the same for the model alone; empty: `backend`.
    """
    draft = pair_of(name)
    with handle_ending(signal.SIG_DFL):  # the hub's threads would first finish their files
        target = pull(name, source or backend, revision, note)
        return [target, pull(draft, backend, note=note)] if draft else [target]


def load_or_pull(load: Callable[[], Engine], screen: Screen, *, ask: bool) -> Engine:
    """What `load` loads; a card's model that it lacks is pulled if the user agrees.

    ask: whether somebody at a terminal can agree. Raises AbsentError if nobody does.
    """
    try:
        return load()
    except AbsentError as error:
        if not (ask and _is_wanted(error, screen)):
            raise
        pull_pair(error.name, error.backend, screen.note)
    return load_or_pull(load, screen, ask=ask)


def _is_wanted(error: AbsentError, screen: Screen) -> bool:
    draft, size = pair_of(error.name), pair_size(error.name, error.backend)
    pair = f"{error.name}, with its draft {draft}," if draft else error.name
    screen.note(f"{pair} is not on this machine" + (f": {size / 1e9:.0f} GB" if size else ""))
    try:
        return input("pull it now? [Y/n] ").strip().lower() in ("", "y", "yes")
    except EOFError:
        screen.say("")  # ends the line of the question
        return False
