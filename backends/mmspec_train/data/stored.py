"""A target's conversations on disk, and batches of them by a schedule of text and images.

    about.SPLIT.json    the options that produced the other files
    SPLIT.jsonl         one record per line, which says where its hidden states are
    SPLIT.states        float16 rows of width H: for each conversation its hidden states, then
                        the rows of its images
    SPLIT.layers-2-15   the outputs of layers 2 and 15 side by side, at the rows of the states

A batch depends only on the seed and its number; MSD's schedule follows its section 4.3.

Shape letters: H width, n columns, m image rows and c captured layers of one conversation.
"""

import math
import os
import random
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path

import msgspec
import numpy as np
import torch
from torch import Tensor

from mmspec.decoding.contract import Float32
from mmspec.ground.errors import UsageError
from mmspec.ground.input_files import open_file, read_errors, require_file
from mmspec.ground.output_files import write_errors
from mmspec_train.data.batch import Batch, ConversationRecord, collate
from mmspec_train.data.corpus import Corpus
from mmspec_train.data.teacher import Teacher
from mmspec_train.run.log import Log
from mmspec_train.settings import Content, DataSettings


@dataclass
class RowFile:
    """A file of float16 rows."""

    path: Path
    width: int

    @property
    def row_bytes(self) -> int:
        """The bytes of a row, two for each number."""
        return 2 * self.width

    def write(self, first: int, rows: Tensor) -> None:
        """Write rows [r, width] from row `first` on."""
        with write_errors(self.path):
            self.path.touch()
            with self.path.open("r+b") as file:
                file.seek(first * self.row_bytes)
                file.write(rows.half().cpu().numpy().tobytes())

    @property
    def bytes(self) -> int:
        """The size of the file, 0 if there is none."""
        return self.path.stat().st_size if self.path.exists() else 0

    @property
    def count(self) -> int:
        """The number of whole rows."""
        return self.bytes // self.row_bytes

    def read(self, first: int, count: int) -> Tensor | None:
        """Return rows [count, width]; None if some are not there or not finite."""
        if not self.bytes:
            return None
        size, offset = count * self.width, first * self.row_bytes
        with read_errors(self.path, UsageError):
            require_file(self.path)
            rows = torch.from_numpy(np.fromfile(self.path, np.float16, size, offset=offset))
        complete = len(rows) == size and rows.isfinite().all()
        return rows.view(count, self.width) if complete else None


@dataclass
class TeacherCache:
    """The conversations of one split, stored in a directory."""

    directory: Path
    split: str
    width: int
    """H, the width of the hidden states."""

    def __post_init__(self) -> None:
        self.records_file = self.directory / f"{self.split}.jsonl"
        self.states = RowFile(self.directory / f"{self.split}.states", self.width)
        self.manifest_file = self.directory / f"about.{self.split}.json"

    @contextmanager
    def lock(self, log: Log) -> Iterator[None]:
        """Context of the only run that writes here; others say so and wait for its end."""
        with ExitStack() as stack:
            with suppress(ImportError, OSError):  # Windows, or a file system without locks
                import fcntl

                stack.callback(os.close, place := os.open(self.directory, os.O_RDONLY))
                try:
                    fcntl.flock(place, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    log.say(f"waiting for another run in {self.directory}")
                    fcntl.flock(place, fcntl.LOCK_EX)
            yield

    def records(self, *, repair: bool = False) -> list[ConversationRecord]:
        """Return all records, but an incomplete last line; repair, within `lock`: delete that."""
        if not self.records_file.exists():
            return []
        with read_errors(self.records_file, UsageError), open_file(self.records_file) as file:
            content = file.read()
        complete = content.rfind(b"\n") + 1
        if repair and complete < len(content):
            os.truncate(self.records_file, complete)
        try:
            return list(map(ConversationRecord.from_line, content[:complete].splitlines()))
        except (ValueError, RecursionError) as error:
            raise self.damage(self.records_file, str(error)) from error

    def damage(self, file: Path, reason: str) -> UsageError:
        """The error for a file that does not hold what was written."""
        return UsageError(
            f"{file} is damaged, or of another version ({reason}): delete {self.directory} to go on"
        )

    def append(
        self, conversations: Sequence[tuple[ConversationRecord, Tensor | None]], max_bytes: int
    ) -> None:
        """Append records, with states and image rows [n + m, H] as far as `max_bytes` hold them."""
        lines, end = [], self.states.count
        for record, states in conversations:
            place, count = None, 0 if states is None else len(states)
            fits = (end + count) * self.states.row_bytes <= max_bytes
            # What float16 cannot hold is computed anew.
            if states is not None and fits and states.half().isfinite().all():
                self.states.write(end, states)
                place, end = (end, count), end + count
            lines.append(msgspec.structs.replace(record, place=place).line)
        # Records come last: a record is there only once its states are.
        with write_errors(self.records_file), self.records_file.open("ab") as file:
            file.writelines(lines)

    def layers(self, numbers: Sequence[int]) -> RowFile:
        """The file with the outputs of the layers with these numbers."""
        path = self.directory / f"{self.split}.layers-{'-'.join(map(str, numbers))}"
        return RowFile(path, len(numbers) * self.states.width)

    def read(self, record: ConversationRecord) -> Tensor:
        """Return a conversation's stored states and image rows [n + m, H]; raises UsageError."""
        first, count = record.place or (0, 0)
        if (rows := self.states.read(first, count)) is None:
            reason = f"rows {first} to {first + count - 1} are not there, or not finite"
            raise self.damage(self.states.path, reason)
        return rows


BATCHES_PER_POOL = 8
"""Number of batches whose conversations are sorted by length together to save padding."""
EPOCHS = 40
"""Number of epochs of a run, as in MSD; the first half trains on text alone."""
DESCRIPTIONS = {"all": "", "text": " without images", "images": " with images"}
"""For each content, the words that follow "conversation" in an error."""


@dataclass
class ConversationBatches:
    """A split's conversations, where they are stored and come from; endless batches of them."""

    cache: TeacherCache
    corpus: Corpus
    teacher: Teacher
    settings: DataSettings
    content: Content
    needs_states: bool
    """True if batches without stored hidden states contain pixels, to compute them."""
    always_pixels: bool
    """True if all batches contain pixels."""
    limit: tuple[int, int] | None
    """Most columns of a conversation, and columns of an image in the draft; None: no limit."""

    def sample(self) -> list[ConversationRecord]:
        """The stored ones of the first `--samples`: runs that share answers may have more."""
        return [one for one in self.cache.records() if one.number < self.settings.samples]

    def length(self, record: ConversationRecord) -> int:
        """The number of a conversation's columns in the target."""
        return record.length(self.teacher.config.vision)

    def records(self) -> list[ConversationRecord]:
        """Return the selected conversations.  Raises UsageError if there are none."""
        records = [record for record in self.sample() if self._takes(record)]
        if not records:
            raise UsageError(
                f"{self.cache.records_file} has no conversation{DESCRIPTIONS[self.content]} that "
                "can be learned from: give more --samples, fewer --answer-tokens, or "
                "--schedule mixed"
            )
        return records

    def _takes(self, record: ConversationRecord) -> bool:
        has_content = self.content == "all" or (record.images > 0) == (self.content == "images")
        most, positions = self.limit or (math.inf, 1)
        return has_content and record.columns(positions * record.images) <= most

    def batches(self, start: int) -> Iterator[Batch]:
        """Yield batches from number `start` on, without end; each epoch is shuffled anew."""
        records = self.records()
        for epoch in count():
            batches = self.plan(records, epoch)
            first, start = min(start, len(batches)), max(0, start - len(batches))
            yield from (self.batch(batch) for batch in batches[first:])

    def once(self) -> Iterator[Batch]:
        """Yield batches that hold every conversation once, the shortest first."""
        return map(self.batch, self._cut(sorted(self.records(), key=self.length)))

    def plan(
        self, records: Sequence[ConversationRecord], epoch: int
    ) -> list[list[ConversationRecord]]:
        """Shuffle an epoch's conversations into batches of similar length."""
        rng = random.Random(f"{self.settings.seed}/{self.cache.split}/{self.content}/{epoch}")
        order = rng.sample(records, len(records))
        mean = sum(map(self.length, order)) / len(order)
        pool = max(1, int(BATCHES_PER_POOL * self.settings.batch / mean))
        batches = []
        for first in range(0, len(order), pool):
            cuts = list(self._cut(sorted(order[first : first + pool], key=self.length)))
            rng.shuffle(cuts)
            batches += cuts
        return batches

    def _cut(self, records: Sequence[ConversationRecord]) -> Iterator[list[ConversationRecord]]:
        """Cut records, sorted by length, into batches that stay within `--batch`."""
        batch: list[ConversationRecord] = []
        for record in records:
            if batch and (len(batch) + 1) * self.length(record) > self.settings.batch:
                yield batch
                batch = []
            batch.append(record)
        yield batch

    def batch(self, records: Sequence[ConversationRecord]) -> Batch:
        """Return `records` as one batch."""
        rows = list(map(self.cache.read, records)) if all(r.place for r in records) else []
        reads_images = self.always_pixels or (self.needs_states and not rows)
        images = self.pixels(records) if reads_images else ()
        teacher, layer_outputs = self.teacher, self._layer_outputs(records) if rows else []
        vision = teacher.config.vision
        return collate(records, images, rows, teacher.image_id, vision, layer_outputs)

    def _layer_outputs(self, records: Sequence[ConversationRecord]) -> list[Tensor]:
        """Return the stored outputs [n, c H] of the captured layers; [] unless all are there."""
        numbers, outputs = self.teacher.captured_layers, list[Tensor]()
        file = self.cache.layers(numbers)
        for record in records if numbers else ():
            first, _ = record.place or (0, 0)
            rows = file.read(first, self.length(record))
            if rows is None:
                return []
            outputs.append(rows)
        return outputs

    def pixels(self, records: Sequence[ConversationRecord]) -> list[Float32]:
        """Return the pixels [3, height, width] of every image in the records."""
        images: list[Float32] = []
        for record in records:
            if not record.sides:
                continue
            turns = self.corpus.turns(record.number)
            pictures = [picture for turn in turns for picture in turn.question.pictures]
            if len(pictures) != record.images:
                reason = f"conversation {record.number} has {record.images} images in place of"
                raise self.cache.damage(self.cache.records_file, f"{reason} {len(pictures)}")
            images += map(self.teacher.pixels, pictures)
        return images


def pick_source(sources: int, seed: int, step: int, progress: float) -> int:
    """Return the index of the source of a step's batch: of two sources, 1 has the images.

    Source 1 has probability 0 in the first half of the EPOCHS, which then grows by equal steps to
    1. The choice is the same in every run for the same arguments.
    """
    epoch, half = min(EPOCHS, 1 + int(progress * EPOCHS)), EPOCHS // 2
    share = max(0.0, (epoch - half) / (EPOCHS - half)) if sources > 1 else 0.0
    return int(random.Random(f"{seed}/images/{step}").random() < share)
