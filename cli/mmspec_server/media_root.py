"""Reads image files inside one directory, for requests with `file:` URLs."""

import os
import stat
from pathlib import Path
from urllib.parse import unquote, urlsplit


class RefusedFile(Exception):
    """A file that is not read; the message names no path."""


def read_file(root: Path, url: str, limit: int) -> bytes:
    """The file that a `file:` URL names, absolute or relative to `root`.

    Raises RefusedFile unless it is a regular file inside `root`, links resolved, of at most `limit`
    bytes.
    """
    try:
        path = (root / unquote(urlsplit(url).path)).resolve(strict=True)
        if not path.is_relative_to(root.resolve(strict=True)):
            raise RefusedFile("there is no such file in the media root")
        return _content(path, limit)
    except (OSError, ValueError, RuntimeError) as error:
        # Python 3.11 raises RuntimeError for links in a circle.
        raise RefusedFile("there is no such file in the media root") from error


def _content(path: Path, limit: int) -> bytes:
    # Without following a link that has come since, nor waiting for a pipe's writer.
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    with os.fdopen(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise RefusedFile("it is not a regular file")
        if status.st_size > limit:
            raise RefusedFile(f"it is larger than {limit} bytes")
        return file.read(limit)
