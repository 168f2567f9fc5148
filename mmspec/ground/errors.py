"""Errors for the user: one line each, which says what to do."""

import difflib
from collections.abc import Iterable


class MmspecError(Exception):
    """An error that is printed as one line, without a traceback."""

    exit_code = 2


class UsageError(MmspecError):
    """A wrong choice: an unknown name, or options or models that do not work together."""


class ImageError(MmspecError):
    """A file that cannot be used as an image; the message names it."""


class CheckpointError(MmspecError):
    """A model directory with missing, malformed or unsafe files; the message names the file."""


class HubError(MmspecError):
    """A repository that is neither cached nor reachable; the message says how to get it."""


class AbsentError(HubError):
    """A model with a card that is not on this machine."""

    def __init__(self, message: str, name: str, backend: str) -> None:
        """name: the card's.  backend: in whose format it is needed."""
        super().__init__(message)
        self.name, self.backend = name, backend


class ContextError(MmspecError):
    """A prompt with its images leaves too few of the model's positions for an answer."""

    def __init__(self, message: str, excess: int) -> None:
        """excess: by how many positions."""
        super().__init__(message)
        self.excess = excess


class BackendError(MmspecError):
    """A backend or device that is not installed or not present; the message says how to get it."""


class DraftError(MmspecError):
    """A draft that no target may verify: the fault of its drafter."""


class PluginError(MmspecError):
    """An exception of another package's code, which is its cause."""

    def __init__(self, place: str, reason: str) -> None:
        """place: the plug-in and the line at which it failed; the message has the reason too."""
        super().__init__(f"{place} ({reason}): use another, or tell its author")
        self.place = place


class WriteError(MmspecError):
    """A file or directory that cannot be written; the message names it and the disk's reason."""


def missing_package(what: str, error: ImportError, extra: str) -> BackendError:
    """The error for a feature that lacks a package; extra: mmspec's that brings it, if one does."""
    lack = f"{error.name}, which" if error.name else f"a package ({error}) that"
    package = f'"mmspec[{extra}]"' if extra else error.name or "PACKAGE"
    return BackendError(f"{what} needs {lack} is not installed: run pip install {package}")


def choice(kind: str, got: object, choices: Iterable[str]) -> UsageError:
    """The error for a name outside the allowed ones, with the nearest of them.

    >>> str(choice("backend", "toch", ["torch", "mlx"]))
    "unknown backend 'toch' (nearest: torch): use torch or mlx"
    """
    names, text = list(choices), str(got)
    match = difflib.get_close_matches
    nearest = match(text, names, n=1) or match(text.lower(), names, n=1)
    hint = f" (nearest: {nearest[0]})" if nearest else ""
    words = f"{', '.join(names[:-1])} or {names[-1]}" if names[1:] else "".join(names)
    return UsageError(f"unknown {kind} {got!r}{hint}: use {words or 'none: nothing is available'}")
