"""Opens files for reading: regular ones alone, small ones whole, by paths as people type them.

A pipe or a device in place of a file would be waited for without end. Within `read_errors` an
OSError becomes an error for the user, which names the file.
"""

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from mmspec.ground.errors import MmspecError

_KINDS = (
    (stat.S_ISDIR, "a directory"),
    (stat.S_ISFIFO, "a named pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)
_LFS, _LFS_BYTES = b"version https://git-lfs.github.com/spec/", 1024
"""What a pointer of Git LFS begins with, and more bytes than one has."""


ENCODING_REMEDY = "convert it, such as with iconv -f latin1 -t utf-8"
"""What to do with text in another encoding."""


@contextmanager
def read_errors(path: Path, kind: type[MmspecError]) -> Iterator[None]:
    """Context in which an OSError of reading becomes an error of this kind that names `path`."""
    try:
        yield
    except OSError as error:
        raise kind(f"cannot read {path}: {error.strerror or error}") from error


def require_file(path: Path) -> int:
    """The size of the regular file at `path`; OSError for others and for pointers of Git LFS."""
    try:
        status = path.stat()
    except ValueError as error:  # a name with a zero byte
        raise OSError(errno.EINVAL, str(error), str(path)) from error
    for is_kind, name in _KINDS:
        if is_kind(status.st_mode):
            raise OSError(errno.EINVAL, f"it is {name}, not a file", str(path))
    if status.st_size < _LFS_BYTES:
        with path.open("rb") as file:
            if file.read(len(_LFS)) == _LFS:
                reason = "it is a Git LFS pointer, not the file: run `git lfs pull` in its folder"
                raise OSError(errno.EINVAL, reason, str(path))
    return status.st_size


def open_file(path: Path) -> BinaryIO:
    """Open a regular file; raises OSError for anything else."""
    require_file(path)
    return path.open("rb")


def read_text(path: Path, most: int) -> str:
    """The text of a UTF-8 file; OSError for more than `most` bytes, no file or another encoding."""
    size = require_file(path)
    if size > most:
        reason = f"it has {size:,} bytes, and {most:,} are allowed"
        raise OSError(errno.EFBIG, reason, str(path))
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        reason = f"byte {error.start} is not UTF-8: {ENCODING_REMEDY}"
        raise OSError(errno.EILSEQ, reason, str(path)) from error


def is_there(path: Path) -> bool:
    """True if anything is at `path`; False for a name that no file can have."""
    try:
        return path.exists()
    except OSError:  # a name that is too long
        return False


def expand_home(path: str | Path) -> Path:
    """`path` with ~ and ~NAME expanded; unchanged if there is no such user."""
    try:
        return Path(os.path.expanduser(path))  # noqa: PTH111 - Path's raises for no such user
    except ValueError:  # a name with a zero byte
        return Path(path)
