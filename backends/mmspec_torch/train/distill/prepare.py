"""Making a tape: asking the target, or taking the data's answers, and reading both once."""

import itertools
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mmspec import errors
from mmspec.config import read_config
from mmspec_torch.train import claim, data
from mmspec_torch.train.distill.batch import Stored
from mmspec_torch.train.distill.corpus import Corpus
from mmspec_torch.train.distill.lessons import Lessons, Sight
from mmspec_torch.train.distill.record import Record, Script, script
from mmspec_torch.train.distill.rows import Choose, likeliest, sampled
from mmspec_torch.train.distill.tape import Tape
from mmspec_torch.train.distill.teacher import Reading, Teacher
from mmspec_torch.train.log import Log

ANSWERS = ("target", "dataset")
BATCHES_PER_POOL = 8
REMEDY = "give another --answers-dir, or the options of before"


@dataclass(frozen=True, slots=True)
class Want:
    """How much to prepare: conversations, or as many as minutes allow."""

    samples: int
    minutes: float | None = None
    answers: str = "target"
    """One of ANSWERS: who answers."""
    temperature: float = 0.0
    """Of the target's answers; 0 takes the likeliest tokens."""
    longest: int = 160
    """Tokens of an answer at most."""
    rows: int = 32
    """Conversations answered at once."""
    cache_bytes: int = 0
    """Size that hidden states may take on disk."""
    seed: int = 0

    def __post_init__(self) -> None:
        """Refuse an unknown source of answers."""
        if self.answers not in ANSWERS:
            raise errors.choice("source of answers", self.answers, ANSWERS)

    def chooser(self, number: int) -> Choose:
        """How tokens are chosen in the batch that begins with a conversation."""
        return sampled(self.temperature, self.seed + number) if self.temperature else likeliest


@dataclass(frozen=True)
class Scripts:
    """Pools of conversations as they are to be asked; see `mmspec_torch.train.data.Source`."""

    corpus: Corpus
    directory: Path
    pool: int
    first: int = 0
    """The first conversation wanted."""

    def batches(self, start: int) -> Iterator[list[Script]]:
        """Yield pools from number `start` on, up to the end of the corpus."""
        reading = Reading.of(self.directory, read_config(self.directory))
        for pool in itertools.count(start):
            numbers = range(pool * self.pool, (pool + 1) * self.pool)
            inside = [n for n in numbers if self.corpus.size is None or n < self.corpus.size]
            if not inside:
                return
            yield [self._script(number, reading) for number in inside if number >= self.first]

    def _script(self, number: int, reading: Reading) -> Script:
        exchanges = self.corpus.exchanges(number)
        return script(number, exchanges, reading.template, reading.tokenizer, min(reading.stop))


@dataclass
class Preparation:
    """A tape in the making."""

    tape: Tape
    corpus: Corpus
    teacher: Teacher
    want: Want
    workers: int = 1
    asked: int = 0
    """Conversations gone through."""
    left_out: int = 0
    """Of those, by this process, for want of room."""

    @property
    def stage(self) -> str:
        """What a person is told that this is."""
        return f"answers ({self.tape.split})"

    def check(self) -> None:
        """Raise the MmspecError of what can be known to be wrong before anything is made."""
        claim.check(self.tape.about, self._about(), REMEDY)
        self.corpus.check(self.want.samples)

    def run(self, log: Log) -> None:
        """Go on from the conversations that are there until there are enough."""
        claim.claim(self.tape.about, self._about(), REMEDY)
        done = self.tape.records()
        self.asked = done[-1].number + 1 if done else 0
        if self.want.samples <= self.asked or (done and self.want.minutes is not None):
            return
        with log.stopping(self._standing):
            self._ask(log)
        if self.left_out:
            log.say(self._why())

    def _ask(self, log: Log) -> None:
        began, wanted = time.monotonic(), self.want.samples
        pool = BATCHES_PER_POOL * self.want.rows
        source = Scripts(self.corpus, self.teacher.directory, pool, self.asked)
        pools = data.ahead(source, self.asked // pool, self.workers, 2)
        log.show(self.stage, self.asked, self.asked / wanted)
        for number, scripts in enumerate(pools, start=self.asked // pool):
            self._pool([each for each in scripts if each.number < wanted])
            self.asked = min((number + 1) * pool, wanted)
            progress = self._progress(self.asked, time.monotonic() - began)
            log.show(self.stage, self.asked, min(1.0, progress))
            if progress >= 1:
                return

    def _standing(self) -> str:
        return f"{self.stage}: stopped after {self.asked}; the same command goes on from there"

    def _why(self) -> str:
        """How many conversations were left out, and why."""
        answers = f"with --answer-tokens {self.want.longest} they may take"
        if self.want.answers == "dataset":
            answers = "they take"
        return (
            f"{self.stage}: {self.left_out} of {self.asked} conversations left out: {answers} "
            f"more than the {self._room} positions of the target"
        )

    def _progress(self, samples: int, seconds: float) -> float:
        spent = seconds / (60 * self.want.minutes) if self.want.minutes else 0.0
        return max(spent, samples / self.want.samples)

    def _about(self) -> dict[str, Any]:
        want = self.want
        return {
            "target": self.teacher.digest(),
            "data": self.corpus.about,
            "answers": want.answers,
            "temperature": want.temperature,
            "longest": want.longest,
        }

    def _pool(self, scripts: Sequence[Script]) -> None:
        """Answer some conversations, like ones together, and append them in order.

        A batch takes as many turns as its longest conversation, and columns as its widest.
        """
        fitting = [each for each in scripts if self._most(each) <= self._room]
        self.left_out += len(scripts) - len(fitting)
        ordered = sorted(fitting, key=lambda each: (len(each.prompts), self._columns(each)))
        made: list[tuple[Record, Stored | None]] = []
        for first in range(0, len(ordered), self.want.rows):
            made += self._made(ordered[first : first + self.want.rows])
        made.sort(key=lambda each: each[0].number)
        stored = [each for _, each in made if each]
        records = [record for record, _ in made]
        if stored:
            self.tape.append(records, stored, self.want.cache_bytes)
        else:
            self.tape.write(records)

    def _made(self, scripts: Sequence[Script]) -> Iterator[tuple[Record, Stored | None]]:
        want, keeps = self.want, bool(self.want.cache_bytes)
        if want.answers == "target":
            choose = want.chooser(scripts[0].number)
            for told in self.teacher.answers(scripts, want.longest, choose):
                stored = Stored(told.states, told.visual.flatten(0, 1))
                yield told.record, stored if keeps else None
            return
        records = [each.record(each.answers, self.teacher.reading.stop) for each in scripts]
        read = self._read(records) if keeps else [None] * len(records)
        yield from zip(records, read, strict=True)

    def _read(self, records: Sequence[Record]) -> list[Stored]:
        """What the target makes of given answers."""
        batch = self.lessons(1).batch(records)
        lesson = self.teacher.lesson(batch)
        rows = zip(lesson.states, lesson.embeddings, lesson.lengths, lesson.images, strict=True)
        return [
            Stored(
                states[:columns],
                embeddings[[c for first, end in spans for c in range(first, end)]],
            )
            for states, embeddings, columns, spans in rows
        ]

    def lessons(self, positions_per_batch: int, seed: int = 0) -> Lessons:
        """The tape's conversations as batches."""
        shown = sight(self.teacher)
        return Lessons(self.tape, self.corpus, shown, positions_per_batch, seed)

    @property
    def _room(self) -> int:
        return self.teacher.config.text.max_position_embeddings

    def _columns(self, each: Script) -> int:
        """Positions that a conversation takes with the data's answers."""
        given = each.record(each.answers, frozenset())
        return given.columns(self.teacher.config.image_tokens)

    def _most(self, each: Script) -> int:
        """Positions that it may come to take."""
        if self.want.answers == "dataset":
            return self._columns(each)
        said = sum(map(len, each.answers))
        return self._columns(each) - said + self.want.longest * len(each.prompts)


def sight(teacher: Teacher) -> Sight:
    """How the target is shown images."""
    reading = teacher.reading
    return Sight(reading.image_id, teacher.config.image_tokens, reading.preprocessing)
