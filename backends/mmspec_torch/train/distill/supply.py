"""A teacher with its conversations, prepared once and shared by everything that learns of it."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from mmspec_torch.train import loop
from mmspec_torch.train.distill.corpus import Corpus
from mmspec_torch.train.distill.curriculum import SHOWN, Kept
from mmspec_torch.train.distill.lessons import Lessons, Room
from mmspec_torch.train.distill.prepare import Preparation, Want, sight
from mmspec_torch.train.distill.tape import Tape
from mmspec_torch.train.distill.teacher import Teacher
from mmspec_torch.train.log import Log

HELD_OUT_SAMPLES = 128


def held_out_of(samples: int) -> int:
    """How many conversations to judge by beside so many to learn from: a fifth, up to 128."""
    return max(1, min(HELD_OUT_SAMPLES, samples // 5))


@dataclass(frozen=True)
class Supply:
    """Training and held-out conversations of one target, in a directory."""

    teacher: Teacher
    directory: Path
    corpora: tuple[Corpus, Corpus]
    """For training, and held out."""
    want: Want
    machine: loop.Machine
    positions_per_batch: int = 8192
    held_out_samples: int = HELD_OUT_SAMPLES
    reads: bool = True
    """Whether what is learned from is read by the target too, so that states are worth keeping."""
    room: Room | None = None
    """What conversations must fit into, for a draft with columns of its own."""
    shown: bool = False
    """Whether that draft is shown images."""

    def check(self) -> None:
        """Raise the MmspecError of what can be known to be wrong before anything is made."""
        for split in ("train", "held-out"):
            self._preparation(split).check()

    def prepare(self, log: Log) -> None:
        """Have enough answers; held-out ones are the target's own, greedy, always."""
        if self.machine.team.rank == 0:
            self._preparation("train").run(log)
            self._preparation("held-out").run(log)
        self.machine.team.told(0.0)  # the others wait

    def _preparation(self, split: str) -> Preparation:
        number = int(split == "held-out")
        want = self.want if self.reads else replace(self.want, cache_bytes=0)
        if number:
            samples = self.held_out_samples
            want = replace(
                self.want, samples=samples, minutes=None, answers="target", temperature=0.0
            )
        tape, workers = self._tape(split), self.machine.workers
        return Preparation(tape, self.corpora[number], self.teacher, want, workers)

    def _tape(self, split: str) -> Tape:
        return Tape(self.directory, split, self.teacher.config.text.hidden_size)

    def kinds(self) -> Sequence[Lessons]:
        """Training batches of text, and those with images."""
        return [self.lessons("text"), self.lessons("images")]

    def lessons(self, kept: Kept) -> Lessons:
        """Training batches of some conversations."""
        return Lessons(
            self._tape("train"),
            self.corpora[0],
            sight(self.teacher),
            self.positions_per_batch,
            self.want.seed,
            kept,
            shown=self.shown,
            room=self.room,
        )

    @property
    def held_out(self) -> Lessons:
        """Held-out conversations in batches."""
        lessons = self.lessons("all")
        return replace(lessons, tape=self._tape("held-out"), corpus=self.corpora[1])

    @property
    def conversations(self) -> int:
        """How many there are to learn from."""
        return len(self._tape("train").records())

    def require(self, schedule: str) -> None:
        """Raise UsageError where there is nothing of what a schedule shows."""
        for kept in SHOWN[schedule]:
            self.lessons(kept).records()

    @property
    def source(self) -> dict[str, Any]:
        """What answers are made of."""
        return {
            "target": str(self.teacher.directory),
            "target_digest": self.teacher.digest(),
            "corpus": self.corpora[0].about,
            "answers": self.want.answers,
            "temperature": self.want.temperature,
        }

    @property
    def about(self) -> dict[str, Any]:
        """What was learned from."""
        return {**self.source, "conversations": self.conversations}
