"""What a target was asked and answered, on disk: records, and hidden states up to a bound.

    about.json          what the rest was made of
    SPLIT.jsonl         a record a line
    SPLIT.states        float16 rows of width H: of each conversation its hidden states, then the
                        embeddings of its images
    SPLIT.index.jsonl   [number, first row, rows of states, rows of images] of those that are kept

Shape letters: n columns, m visual positions, H width.
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch

from mmspec_torch.train.distill.batch import Stored
from mmspec_torch.train.distill.record import Record

HALF = 2
"""Bytes of a float16."""
Place = tuple[int, int, int]
"""First row, rows of states, rows of images."""


@dataclass(frozen=True)
class Tape:
    """One split's conversations in a directory."""

    directory: Path
    split: str
    width: int
    """H."""

    @property
    def lines(self) -> Path:
        """The file of records."""
        return self.directory / f"{self.split}.jsonl"

    @property
    def states(self) -> Path:
        """The file of hidden states."""
        return self.directory / f"{self.split}.states"

    @property
    def index(self) -> Path:
        """The file that says where each conversation's states are."""
        return self.directory / f"{self.split}.index.jsonl"

    @property
    def about(self) -> Path:
        """The file that says what the rest was made of."""
        return self.directory / f"about.{self.split}.json"

    def records(self) -> list[Record]:
        """All records, in order; a line cut short by a kill is left out and taken off."""
        if not self.lines.exists():
            return []
        content = self.lines.read_bytes()
        whole = content.rfind(b"\n") + 1
        if whole < len(content):
            self.lines.write_bytes(content[:whole])
        return [Record.from_json(line) for line in content[:whole].decode().splitlines()]

    def append(self, records: Iterable[Record], stored: Iterable[Stored], most_bytes: int) -> None:
        """Append conversations; the states only as long as their file stays below a size."""
        places = []
        with self.states.open("ab") as file:
            file.truncate(file.tell() // (HALF * self.width) * HALF * self.width)
            for record, each in zip(records, stored, strict=True):
                first = file.tell() // (HALF * self.width)
                rows = np.concatenate([each.states.half().cpu(), each.visual.half().cpu()])
                if file.tell() + rows.nbytes > most_bytes:
                    continue
                file.write(rows.tobytes())
                places.append([record.number, first, len(each.states), len(each.visual)])
        self.write(records, places)

    def write(self, records: Iterable[Record], places: Iterable[list[int]] = ()) -> None:
        """Append records, where their states are first."""
        with self.index.open("a", encoding="utf-8") as file:
            file.writelines(json.dumps(place) + "\n" for place in places)
        with self.lines.open("a", encoding="utf-8") as file:
            file.writelines(record.to_json() + "\n" for record in records)

    @cached_property
    def places(self) -> dict[int, Place]:
        """Where the states of each conversation are."""
        if not self.index.exists():
            return {}
        lines = self.index.read_text(encoding="utf-8").splitlines()
        places = (json.loads(line) for line in lines if line.endswith("]"))
        return {number: (first, states, images) for number, first, states, images in places}

    @cached_property
    def _rows(self) -> np.memmap[Any, np.dtype[np.float16]]:
        count = self.states.stat().st_size // (HALF * self.width)
        return np.memmap(self.states, np.float16, "r", shape=(count, self.width))

    def read(self, number: int) -> Stored:
        """The stored states of a conversation.  Raises KeyError where none are."""
        first, states, images = self.places[number]
        rows = torch.from_numpy(np.array(self._rows[first : first + states + images]))
        return Stored(rows[:states], rows[states:])
