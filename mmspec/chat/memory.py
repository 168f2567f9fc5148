"""Texts beside a conversation in which lookup finds places: files, and earlier conversations."""

from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from mmspec.drafters.lookup import EARLIER, KnownText
from mmspec.drafters.text_index import TextIndex
from mmspec.ground.errors import CheckpointError, UsageError
from mmspec.ground.input_files import read_errors, read_text, require_file
from mmspec.ground.output_files import make_directory, replace_file, write_errors
from mmspec.ground.tokens import NO_TOKEN
from mmspec.prompt.tokenizer import Tokenizer

MOST_BYTES = 16_000_000
"""Bytes of a text file at most."""
MOST_TOKENS = 2**18
"""Tokens of a file of ids at most, the latest: 1 MiB, and 8 MB in memory."""
HEADER = b"mmspec token ids"
IDS = np.dtype("<i4")
"""Type of the ids in a file."""

Ids = NDArray[np.int32]


class Memory:
    """Token ids of earlier turns, the oldest out."""

    def __init__(self, size: int, file: Path | None = None) -> None:
        """size: the number of the tokenizer's ids.  file: where they are stored, if anywhere.

        Raises CheckpointError if the file holds anything else.
        """
        self._size, self._file = size, file
        self._new_ids: list[int] = []
        self.text = KnownText(TextIndex.of(self._read_ids()), EARLIER)

    def add(self, tokens: Sequence[int]) -> None:
        """Append a turn; no place is found across its ends."""
        index = self.text.index
        index.rewind(index.length)  # after an interrupt
        index.extend([*tokens, NO_TOKEN])
        if self._file:
            self._new_ids.extend([*tokens, NO_TOKEN])
        if index.length > 2 * MOST_TOKENS:
            self.text.index = TextIndex.of(_latest(np.array(index.tokens, np.int32)))

    def save(self) -> None:
        """Add the new turns to those in the file.  Raises WriteError, and CheckpointError."""
        if self._file and self._new_ids:
            ids = _latest(np.append(self._read_ids(), np.array(self._new_ids, np.int32)))
            make_directory(self._file.parent)
            with write_errors(self._file.parent):
                self._file.parent.chmod(0o700)
            with replace_file(self._file, private=True) as partial:
                partial.write_bytes(HEADER + ids.astype(IDS).tobytes())
            self._new_ids = []

    def _read_ids(self) -> Ids:
        """The ids in the file; none without a file."""
        file = self._file
        if file is None or not file.exists():
            return np.empty(0, np.int32)
        with read_errors(file, CheckpointError):
            size = require_file(file)
            content = file.read_bytes() if size <= len(HEADER) + IDS.itemsize * MOST_TOKENS else b""
        header, body = content[: len(HEADER)], content[len(HEADER) :]
        ids = np.frombuffer(body[: len(body) // IDS.itemsize * IDS.itemsize], IDS)
        is_whole = header == HEADER and ids.nbytes == len(body)
        if not (is_whole and np.all((ids >= NO_TOKEN) & (ids < self._size))):
            raise CheckpointError(f"{file} holds no memory of this tokenizer: delete it")
        return ids.astype(np.int32)


def _latest(ids: Ids) -> Ids:
    """The last turns of `ids`, whole ones, of at most MOST_TOKENS tokens."""
    if len(ids) <= MOST_TOKENS:
        return ids
    ends = np.flatnonzero(ids[-MOST_TOKENS - 1 :] == NO_TOKEN)
    return ids[len(ids) - MOST_TOKENS + ends[0] :]


def read_draft_text(files: Iterable[Path], tokenizer: Tokenizer) -> KnownText | None:
    """The tokens of UTF-8 files; None without files. Raises UsageError for another file."""
    ids: list[int] = []
    for file in files:
        try:
            ids += [*tokenizer.encode(read_text(file, MOST_BYTES)), NO_TOKEN]
        except OSError as error:
            raise UsageError(f"`draft_text={file}` cannot be read: {error.strerror}") from error
    return KnownText(TextIndex.of(np.array(ids, np.int32))) if ids else None
