"""Batches of recorded conversations, each a pure function of the seed and its number."""

import itertools
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from mmspec import errors
from mmspec.images import Preprocessing, pixels
from mmspec.seam import Float32
from mmspec_torch.train.distill.batch import Batch, collate
from mmspec_torch.train.distill.corpus import Corpus
from mmspec_torch.train.distill.curriculum import Kept
from mmspec_torch.train.distill.record import Record, encoded
from mmspec_torch.train.distill.tape import Tape

BATCHES_PER_POOL = 8
"""Conversations of so many batches are sorted by length together, so padding is small."""
CALLED = {"all": "", "text": " without images", "images": " with images"}
"""What follows "conversation" for each kind that is taken."""


@dataclass(frozen=True, slots=True)
class Sight:
    """How a model is shown images; `positions` is 0 for one that sees none."""

    image_id: int
    positions: int
    preprocessing: Preprocessing | None


@dataclass(frozen=True, slots=True)
class Room:
    """A draft's own columns, where an image takes so many of its positions; 0 for one as text."""

    positions: int
    columns: int


@dataclass(frozen=True)
class Lessons:
    """A tape's conversations over and over, shuffled anew in every epoch."""

    tape: Tape
    corpus: Corpus
    sight: Sight
    positions_per_batch: int
    seed: int
    kept: Kept = "all"
    is_stored: bool = True
    """Whether to take hidden states from the tape where it has them."""
    shown: bool = False
    """Whether pixels are wanted also where hidden states are stored."""
    room: Room | None = None
    """What the conversations taken must fit into."""

    def records(self) -> list[Record]:
        """The conversations taken.  Raises UsageError where there is none."""
        found = [record for record in self.tape.records() if self._takes(record)]
        if not found:
            raise errors.UsageError(
                f"{self.tape.lines} has no conversation{CALLED[self.kept]} that can be learned "
                "from: give more --samples, fewer --answer-tokens, or --schedule mixed"
            )
        return found

    def _takes(self, record: Record) -> bool:
        wanted = self.kept == "all" or (record.images > 0) == (self.kept == "images")
        fits = self.room is None or record.columns(self.room.positions or 1) <= self.room.columns
        return wanted and any(record.answers) and fits

    def batches(self, start: int) -> Iterator[Batch]:
        """Yield batches from number `start` on."""
        records = self.records()
        for epoch in itertools.count():
            planned = self.plan(records, epoch)
            skipped, start = min(start, len(planned)), max(0, start - len(planned))
            yield from (self.batch(some) for some in planned[skipped:])

    def once(self) -> Iterator[Batch]:
        """Yield every conversation once, the shortest first."""
        ordered = sorted(self.records(), key=self._columns)
        return (self.batch(some) for some in self._cut(ordered))

    def plan(self, records: Sequence[Record], epoch: int) -> list[list[Record]]:
        """Shuffle an epoch's conversations into batches of like length."""
        rng = random.Random(f"{self.seed}/{self.tape.split}/{self.kept}/{epoch}")
        shuffled = rng.sample(records, len(records))
        mean = sum(map(self._columns, shuffled)) / len(shuffled)
        pool = max(1, int(BATCHES_PER_POOL * self.positions_per_batch / mean))
        planned = []
        for first in range(0, len(shuffled), pool):
            batches = list(self._cut(sorted(shuffled[first : first + pool], key=self._columns)))
            rng.shuffle(batches)
            planned += batches
        return planned

    def _columns(self, record: Record) -> int:
        return record.columns(self.sight.positions or 1)

    def _cut(self, ordered: Sequence[Record]) -> Iterator[list[Record]]:
        """Cut records, the longest last, into batches that fit when padded."""
        batch: list[Record] = []
        for record in ordered:
            if batch and (len(batch) + 1) * self._columns(record) > self.positions_per_batch:
                yield batch
                batch = []
            batch.append(record)
        yield batch

    def batch(self, records: Sequence[Record]) -> Batch:
        """Make the batch of some records."""
        sight = self.sight
        samples = [encoded(record, sight.image_id, sight.positions) for record in records]
        if self.is_stored and all(record.number in self.tape.places for record in records):
            stored = [self.tape.read(record.number) for record in records]
            pixels_wanted = self._pixels(records) if self.shown else ()
            return collate(samples, pixels_wanted, stored, sight.positions)
        return collate(samples, self._pixels(records), (), sight.positions)

    def _pixels(self, records: Sequence[Record]) -> list[Float32]:
        if self.sight.preprocessing is None:
            return []
        return [
            pixels(picture, self.sight.preprocessing)
            for record in records
            if record.images
            for exchange in self.corpus.exchanges(record.number)[: len(record.prompts)]
            for picture in exchange.question.pictures
        ]
