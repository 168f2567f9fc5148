"""A target's conversations on disk: records, and hidden states up to a size limit.

    about.SPLIT.json    the options that produced the other files
    SPLIT.jsonl         one record per line, which says where its hidden states are
    SPLIT.states        float16 rows of width H: for each conversation its hidden states, then
                        the rows of its images

Shape letters: H width, n columns and m image rows of one conversation.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import torch
from torch import Tensor

from mmspec.checkpoints.config import ModelConfig
from mmspec.ground.errors import UsageError
from mmspec.ground.input_files import open_file, require_file
from mmspec.ground.output_files import write_errors
from mmspec_train.data.record import ConversationRecord

FLOAT16_BYTES = 2


@dataclass
class TeacherCache:
    """The conversations of one split, stored in a directory."""

    directory: Path
    split: str
    config: ModelConfig
    """The target's, whose width H the hidden states have."""

    def __post_init__(self) -> None:
        self.width = self.config.text.hidden_size
        self.records_file = self.directory / f"{self.split}.jsonl"
        self.states_file = self.directory / f"{self.split}.states"
        self.manifest_file = self.directory / f"about.{self.split}.json"

    def records(self) -> list[ConversationRecord]:
        """Return all records in order; removes a last line left incomplete by a kill."""
        if not self.records_file.exists():
            return []
        try:
            with open_file(self.records_file) as file:
                content = file.read()
        except OSError as error:
            raise UsageError(f"cannot read {self.records_file}: {error.strerror}") from error
        complete = content.rfind(b"\n") + 1
        if complete < len(content):
            with self.records_file.open("r+b") as file:
                file.truncate(complete)
        try:
            lines = content[:complete].split(b"\n")[:-1]
            records = list(map(ConversationRecord.from_json, lines))
        except (ValueError, RecursionError) as error:
            raise self.damaged(self.records_file, str(error)) from error
        for record in records:
            self._check(record)
        return records

    def _check(self, record: ConversationRecord) -> None:
        """Raise UsageError for a record that no conversation with the target has."""
        text, vision, sizes = self.config.text, self.config.vision, len(record.sides)
        columns, reason = record.columns(record.visual(vision)), ""
        if record.largest_id >= text.vocab_size:
            reason = f"token {record.largest_id} of {text.vocab_size}"
        elif vision and sizes != record.images:
            reason = f"conversation {record.number} has {record.images} images in place of {sizes}"
        elif columns > text.max_position_embeddings:
            reason = f"conversation {record.number} has {columns} columns, more than were prepared"
        if reason:
            raise self.damaged(self.records_file, reason)

    def damaged(self, file: Path, reason: str) -> UsageError:
        """The error for a file that does not hold what was written."""
        return UsageError(f"{file} is damaged ({reason}): delete {self.directory} to go on")

    def append(
        self, conversations: Sequence[tuple[ConversationRecord, Tensor | None]], max_bytes: int
    ) -> None:
        """Append records with their states and image rows [n + m, H].

        States stop being stored when their file would exceed `max_bytes`.
        """
        lines, row_bytes = [], FLOAT16_BYTES * self.width
        with write_errors(self.states_file), self.states_file.open("ab") as file:
            file.truncate(file.tell() // row_bytes * row_bytes)
            for record, states in conversations:
                place = None
                if states is not None:
                    rows = states.half().cpu()
                    # What float16 cannot hold is computed anew.
                    if file.tell() + rows.nbytes <= max_bytes and rows.isfinite().all():
                        columns = record.columns(record.visual(self.config.vision))
                        place = file.tell() // row_bytes, columns, len(rows) - columns
                        file.write(rows.numpy().tobytes())
                stored = msgspec.structs.replace(record, place=place)
                lines.append(msgspec.json.encode(stored) + b"\n")
        # Records come last: a record is there only once its states are.
        with write_errors(self.records_file), self.records_file.open("ab") as file:
            file.writelines(lines)

    @cached_property
    def _rows(self) -> np.ndarray[Any, np.dtype[np.float16]]:
        try:
            shape = require_file(self.states_file) // (FLOAT16_BYTES * self.width), self.width
        except OSError as error:
            raise UsageError(f"cannot read {self.states_file}: {error.strerror}") from error
        if not shape[0]:  # which cannot be mapped
            return np.zeros(shape, np.float16)
        return np.memmap(self.states_file, np.float16, "r", shape=shape)

    def read(self, record: ConversationRecord) -> Tensor:
        """Return the stored states and image rows [n + m, H] of a conversation that has a place.

        Raises UsageError for another number of them, or if they are not there or not finite.
        """
        vision = self.config.vision
        rows_each = 1 + vision.deepstack_layers if vision else 0
        visual = record.visual(vision)
        sizes = [record.columns(visual), rows_each * visual]
        first, *place = record.place or (0, 0, 0)
        if place != sizes:
            reason = f"conversation {record.number} has {place} rows of states in place of {sizes}"
            raise self.damaged(self.records_file, reason)
        end = first + sum(sizes)
        rows = torch.from_numpy(np.array(self._rows[first:end]))
        if len(rows) < sum(sizes) or not rows.isfinite().all():
            reason = f"rows {first} to {end - 1} are not there, or not finite"
            raise self.damaged(self.states_file, reason)
        return rows
