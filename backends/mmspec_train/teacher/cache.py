"""A target's conversations on disk: records, and hidden states up to a size limit.

    about.SPLIT.json    the options that produced the other files
    SPLIT.jsonl         one record per line
    SPLIT.states        float16 rows of width H: for each conversation its hidden states, then
                        the embeddings of its images
    SPLIT.index.jsonl   [number, first row, rows of states, rows of images] of stored conversations

Shape letters: H width.
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch

from mmspec_train.teacher.batch import StoredStates
from mmspec_train.teacher.records import ConversationRecord

FLOAT16_BYTES = 2
Place = tuple[int, int, int]
"""Where a conversation's states are: first row, number of state rows, number of image rows."""


@dataclass
class TeacherCache:
    """The conversations of one split, stored in a directory."""

    directory: Path
    split: str
    width: int
    """H, the width of the hidden states."""

    def __post_init__(self) -> None:
        self.records_file = self.directory / f"{self.split}.jsonl"
        self.states_file = self.directory / f"{self.split}.states"
        self.index_file = self.directory / f"{self.split}.index.jsonl"
        self.manifest_file = self.directory / f"about.{self.split}.json"

    def records(self) -> list[ConversationRecord]:
        """Return all records in order; removes a last line left incomplete by a kill."""
        if not self.records_file.exists():
            return []
        content = self.records_file.read_bytes()
        complete = content.rfind(b"\n") + 1
        if complete < len(content):
            self.records_file.write_bytes(content[:complete])
        return [
            ConversationRecord.from_json(line) for line in content[:complete].decode().splitlines()
        ]

    def append(
        self,
        conversations: Sequence[tuple[ConversationRecord, StoredStates | None]],
        max_bytes: int,
    ) -> None:
        """Append conversations; stop storing states when their file would exceed `max_bytes`."""
        places, row_bytes = [], FLOAT16_BYTES * self.width
        with self.states_file.open("ab") as file:
            file.truncate(file.tell() // row_bytes * row_bytes)
            for record, one in conversations:
                if one is None:
                    continue
                first = file.tell() // row_bytes
                rows = np.concatenate([one.states.half().cpu(), one.visual.half().cpu()])
                if file.tell() + rows.nbytes > max_bytes:
                    continue
                file.write(rows.tobytes())
                places.append([record.number, first, len(one.states), len(one.visual)])
        # Places come before records: a record is there only once its states can be found.
        _append_lines(self.index_file, map(json.dumps, places))
        _append_lines(self.records_file, (record.to_json() for record, _ in conversations))

    @cached_property
    def places(self) -> dict[int, Place]:
        """Where the states of each stored conversation are, by conversation number."""
        if not self.index_file.exists():
            return {}
        lines = self.index_file.read_text(encoding="utf-8").splitlines()
        places = (json.loads(line) for line in lines if line.endswith("]"))
        return {number: (first, states, images) for number, first, states, images in places}

    @cached_property
    def _rows(self) -> np.memmap[Any, np.dtype[np.float16]]:
        count = self.states_file.stat().st_size // (FLOAT16_BYTES * self.width)
        return np.memmap(self.states_file, np.float16, "r", shape=(count, self.width))

    def read(self, number: int) -> StoredStates:
        """Return the stored states of a conversation.  Raises KeyError if there are none."""
        first, states, images = self.places[number]
        rows = torch.from_numpy(np.array(self._rows[first : first + states + images]))
        return StoredStates(rows[:states], rows[states:])


def _append_lines(file: Path, lines: Iterable[str]) -> None:
    with file.open("a", encoding="utf-8") as opened:
        opened.writelines(line + "\n" for line in lines)
