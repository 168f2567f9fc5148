"""Writes a file or a directory beside its place and moves it there once it is complete.

Until then the old content stands: on a full disk, in a read-only folder, after a kill. What a kill
leaves is called `.mmspec-*.partial`; later writes to the same folder delete it.
"""

import os
import secrets
import shutil
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from mmspec.ground.errors import WriteError

ABANDONED_SECONDS = 3600.0
"""Seconds without a change after which a partial file or directory counts as abandoned."""

_PARTIAL = ".mmspec-{}.partial"


@contextmanager
def replace_file(path: Path, *, private: bool = False) -> Iterator[Path]:
    """Context that yields an empty file to write; at its end this file replaces `path`.

    A link at `path` stays, and its target is replaced. A device or a pipe is yielded itself.
    private: only the owner may read the file; otherwise it has the permissions of the one that it
    replaces. If the block raises, `path` is unchanged. Raises WriteError if the disk refuses.
    """
    if path.exists() and not path.is_file():
        with write_errors(path):
            yield path
        return
    place = _place(path)
    with _partial(path, place) as partial:
        partial.touch(mode=0o600 if private else 0o666, exist_ok=False)
        if place.exists():
            place.open("ab").close()  # raises for a file that the user made read-only
            if not private:
                partial.chmod(stat.S_IMODE(place.stat().st_mode))
        yield partial
        _flush(partial)
        partial.replace(place)


def replace_text(path: Path, text: str, *, private: bool = False) -> None:
    """Replace a file by `text` in UTF-8, as `replace_file` does; bytes that were no text are ?."""
    with replace_file(path, private=private) as partial:
        partial.write_text(text, encoding="utf-8", errors="replace")


@contextmanager
def new_directory(path: Path) -> Iterator[Path]:
    """Context that yields an empty directory to fill; at its end it is moved to `path`.

    Makes missing parents. If the block raises, there is nothing at `path`. Raises WriteError if the
    disk refuses, or if `path` exists and is not an empty directory.
    """
    place = _place(path)
    make_directory(place.parent)
    with _partial(path, place) as partial:
        partial.mkdir()
        yield partial
        for file in partial.rglob("*"):
            if file.is_file():
                _flush(file)
        partial.replace(place)


def make_directory(path: Path) -> None:
    """Make a directory and its missing parents. Raises WriteError."""
    place = _place(path)
    with write_errors(path):
        place.mkdir(parents=True, exist_ok=True)


@contextmanager
def write_errors(path: Path, partial: Path | None = None) -> Iterator[None]:
    """Context in which an OSError of writing becomes a WriteError that names `path`.

    partial: where the content is written, if not to `path`. An error about another file passes.
    """
    try:
        yield
    except OSError as error:
        if not _concerns(error, path, Path(os.path.realpath(path)), partial or path):
            raise
        stands = "; its old content stands" if partial and path.exists() else ""
        reason = error.strerror or str(error)
        raise WriteError(f"{path} cannot be written ({reason}){stands}") from error


def _place(path: Path) -> Path:
    """Where `path` leads, links resolved. Raises WriteError for a name with a zero byte."""
    try:
        return Path(os.path.realpath(path))
    except ValueError as error:
        raise WriteError(f"{path} cannot be written ({error})") from error


def _concerns(error: OSError, *places: Path) -> bool:
    """True if an error is about one of the places, a folder above it or a file in it."""
    name = error.filename2 or error.filename  # a copy or a move that fails names its source first
    if name is None:
        return True
    file = Path(os.fsdecode(name))
    return any(file in (place, *place.parents) or place in file.parents for place in places)


@contextmanager
def _partial(path: Path, place: Path) -> Iterator[Path]:
    """Context that yields a free name beside `place`, and deletes what is left there at its end."""
    partial = place.with_name(_PARTIAL.format(secrets.token_hex(4)))
    with write_errors(path, partial):
        delete_leftovers(place.parent, _PARTIAL.format("*"))
        try:
            yield partial
        finally:
            _delete(partial)


def delete_leftovers(folder: Path, pattern: str) -> None:
    """Delete partial files and directories of this pattern that nobody writes any more."""
    limit = time.time() - ABANDONED_SECONDS
    for partial in folder.glob(pattern):
        with suppress(OSError):
            changes = (file.stat().st_mtime for file in (partial, *partial.rglob("*")))
            if max(changes) < limit:
                _delete(partial)


def _delete(partial: Path) -> None:
    """Delete a file or directory; does nothing if it is absent or cannot be deleted."""
    shutil.rmtree(partial, ignore_errors=True)
    with suppress(OSError):
        partial.unlink(missing_ok=True)


def _flush(file: Path) -> None:
    """Wait until a file is on the disk: some file systems notice only then that they are full."""
    with file.open("r+b") as stream:
        os.fsync(stream.fileno())
