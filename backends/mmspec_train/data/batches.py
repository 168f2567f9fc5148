"""Batches of recorded conversations, and the schedules of text and images (MSD, section 4.3).

A batch depends only on the seed and its number.
"""

import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Literal

from mmspec.decoding.contract import Float32
from mmspec.families.family import Preprocessing, Vision
from mmspec.ground import errors
from mmspec_train.data.batch import Batch, collate
from mmspec_train.data.cache import TeacherCache
from mmspec_train.data.corpus import Corpus
from mmspec_train.data.record import ConversationRecord

BATCHES_PER_POOL = 8
"""Number of batches whose conversations are sorted by length together to save padding."""
Content = Literal["all", "text", "images"]
"""Which conversations to use: all, those without images, or those with images."""
EPOCHS = 40
"""Number of epochs of a run, as in MSD; the first half trains on text alone."""
SCHEDULES: dict[str, tuple[Content, ...]] = {
    "mixed": ("all",),
    "msd": ("text", "images"),
    "text": ("text",),
    "images": ("images",),
}
"""For each schedule, which conversations its sources of batches contain."""
DESCRIPTIONS = {"all": "", "text": " without images", "images": " with images"}
"""For each content, the words that follow "conversation" in an error."""


@dataclass(frozen=True)
class ConversationBatches:
    """Endless batches of a cache's conversations, reshuffled every epoch."""

    cache: TeacherCache
    corpus: Corpus
    image_id: int
    """The token at the positions of images."""
    vision: Vision | None
    """The config of the target's tower; None for a text-only model."""
    preprocessing: Preprocessing | None
    positions_per_batch: int
    seed: int
    content: Content = "all"
    always_pixels: bool = False
    """True if batches contain pixels even if hidden states are stored."""
    limit: tuple[int, int] | None = None
    """Most columns of a conversation, and columns of an image in the draft; None: no limit."""
    files: tuple[int, ...] | None = None
    """Indices of the corpus' files whose conversations are used; None: all."""

    def records(self) -> list[ConversationRecord]:
        """Return the selected conversations.  Raises UsageError if there are none."""
        records = [record for record in self.cache.records() if self._takes(record)]
        if not records:
            raise errors.UsageError(
                f"{self.cache.records_file} has no conversation{DESCRIPTIONS[self.content]} that "
                "can be learned from: give more --samples, fewer --answer-tokens, or "
                "--schedule mixed"
            )
        return records

    def _takes(self, record: ConversationRecord) -> bool:
        wanted = self.content == "all" or (record.images > 0) == (self.content == "images")
        if self.files is not None and self.corpus.file_of(record.number) not in self.files:
            return False
        most, positions = self.limit or (math.inf, 1)
        columns = record.columns(positions * record.images)
        return wanted and any(record.answers) and columns <= most

    def batches(self, start: int) -> Iterator[Batch]:
        """Yield batches from number `start` on."""
        records = self.records()
        for epoch in count():
            planned = self.plan(records, epoch)
            skipped, start = min(start, len(planned)), max(0, start - len(planned))
            yield from (self.batch(batch) for batch in planned[skipped:])

    def once(self) -> Iterator[Batch]:
        """Yield batches that hold every conversation once, the shortest first."""
        ordered = sorted(self.records(), key=self._columns)
        return (self.batch(batch) for batch in self._cut(ordered))

    def plan(
        self, records: Sequence[ConversationRecord], epoch: int
    ) -> list[list[ConversationRecord]]:
        """Shuffle an epoch's conversations into batches of similar length."""
        rng = random.Random(f"{self.seed}/{self.cache.split}/{self.content}/{epoch}")
        shuffled = rng.sample(records, len(records))
        mean = sum(map(self._columns, shuffled)) / len(shuffled)
        pool = max(1, int(BATCHES_PER_POOL * self.positions_per_batch / mean))
        planned = []
        for first in range(0, len(shuffled), pool):
            batches = list(self._cut(sorted(shuffled[first : first + pool], key=self._columns)))
            rng.shuffle(batches)
            planned += batches
        return planned

    def _columns(self, record: ConversationRecord) -> int:
        return record.columns(record.visual(self.vision))

    def _cut(self, ordered: Sequence[ConversationRecord]) -> Iterator[list[ConversationRecord]]:
        """Cut records, sorted by length, into batches that stay within `positions_per_batch`."""
        batch: list[ConversationRecord] = []
        for record in ordered:
            if batch and (len(batch) + 1) * self._columns(record) > self.positions_per_batch:
                yield batch
                batch = []
            batch.append(record)
        yield batch

    def batch(self, records: Sequence[ConversationRecord]) -> Batch:
        """Return `records` as one batch."""
        stored = list(map(self.cache.read, records)) if all(r.place for r in records) else []
        images = self.pixels(records) if self.always_pixels or not stored else ()
        return collate(records, images, stored, self.image_id, self.vision)

    def pixels(self, records: Sequence[ConversationRecord]) -> list[Float32]:
        """Return the pixels [3, height, width] of every image in the records."""
        images: list[Float32] = []
        if self.preprocessing is None:
            return images
        for record in records:
            turns = self.corpus.turns(record.number) if record.images else []
            pictures = [picture for turn in turns for picture in turn.question.pictures]
            if len(pictures) != record.images:
                reason = f"conversation {record.number} has {record.images} images in place of"
                raise self.cache.damaged(self.cache.records_file, f"{reason} {len(pictures)}")
            images += [self.preprocessing.pixels(picture.image) for picture in pictures]
        return images


def pick_source(sources: int, seed: int, step: int, progress: float) -> int:
    """Return the index of the source of a step's batch: of two sources, 1 has the images.

    Its probability is 0 in the first half of the EPOCHS, then grows by equal steps to 1. It is the
    same in every run for the same arguments.
    """
    epoch, half = min(EPOCHS, 1 + int(progress * EPOCHS)), EPOCHS // 2
    share = max(0.0, (epoch - half) / (EPOCHS - half)) if sources > 1 else 0.0
    return int(random.Random(f"{seed}/images/{step}").random() < share)
