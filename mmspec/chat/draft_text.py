"""Reads texts that answers may quote, for lookup."""

from collections.abc import Iterable
from pathlib import Path

import numpy as np

from mmspec.drafters.lookup import KnownText
from mmspec.drafters.text_index import TextIndex
from mmspec.ground.errors import UsageError
from mmspec.ground.input_files import read_text
from mmspec.ground.tokens import NO_TOKEN
from mmspec.prompt.tokenizer import Tokenizer

MOST_BYTES = 16_000_000
"""Bytes of a text file at most."""


def read_draft_text(files: Iterable[Path], tokenizer: Tokenizer) -> KnownText | None:
    """The tokens of UTF-8 files; None without files. Raises UsageError for another file."""
    ids: list[int] = []
    for file in files:
        try:
            ids += [*tokenizer.encode(read_text(file, MOST_BYTES)), NO_TOKEN]
        except OSError as error:
            raise UsageError(f"`draft_text={file}` cannot be read: {error.strerror}") from error
        except UnicodeDecodeError as error:
            raise UsageError(f"`draft_text={file}`: give a text in UTF-8 ({error})") from error
    return KnownText(TextIndex.of(np.array(ids, np.int32))) if ids else None
