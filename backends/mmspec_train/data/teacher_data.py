"""A teacher with its prepared conversations, shared by all heads and drafts trained from it."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from mmspec.checkpoints.hub import resolve
from mmspec_train.data.batches import Content, ConversationBatches
from mmspec_train.data.cache import TeacherCache
from mmspec_train.data.corpus import Corpus, open_corpora
from mmspec_train.data.preparation import Preparation
from mmspec_train.data.teacher import Teacher
from mmspec_train.run.distributed import Processes, join_processes
from mmspec_train.run.log import Log
from mmspec_train.run.phase import Machine, pick_device
from mmspec_train.settings import DataSettings, RunSettings

CHECKPOINT_SECONDS = 60.0


@dataclass(frozen=True)
class TeacherData:
    """The training and held-out conversations of one target."""

    teacher: Teacher
    directory: Path
    corpora: tuple[Corpus, Corpus]
    """The training corpus and the held-out corpus."""
    settings: DataSettings
    machine: Machine
    needs_states: bool = True
    """True if training uses the target's hidden states; evaluations always do."""
    always_pixels: bool = False
    """True if batches contain pixels even if hidden states are stored, for a draft with vision."""
    limit: tuple[int, int] | None = None
    """Most columns of a conversation, and columns of an image in the draft; None: no limit."""

    def check(self) -> None:
        """Raise MmspecError for wrong options or data. Writes nothing."""
        self._preparation("train").check()
        self._preparation("held-out").check()

    def prepare(self, log: Log) -> None:
        """Fill both caches; held-out answers are always the target's own, greedy."""
        if self.machine.processes.rank == 0:
            for line in self.corpora[0].notes():
                log.say(line)
            self._preparation("train").run(log)
            self._preparation("held-out").run(log)
        self.machine.processes.wait()

    def _preparation(self, split: str) -> Preparation:
        corpus, settings = self.corpora[0], self.settings
        if split == "held-out":
            corpus, samples = self.corpora[1], settings.held_out_samples
            settings = replace(settings, samples=samples, answers="target", temperature=0.0)
        elif not self.needs_states:
            settings = replace(settings, cache_gb=0.0)
        cache = TeacherCache(self.directory, split, self.teacher.config)
        return Preparation(cache, corpus, self.teacher, settings)

    def batches(
        self, content: Content, files: tuple[int, ...] | None = None
    ) -> ConversationBatches:
        """Return batches of the training conversations with this content.

        files: indices of the `--data` files; None for all.
        """
        return self._batches("train", content, files)

    @property
    def held_out(self) -> ConversationBatches:
        """Held-out conversations in batches."""
        return self._batches("held-out", "all")

    def _batches(
        self, split: str, content: Content, files: tuple[int, ...] | None = None
    ) -> ConversationBatches:
        preparation, teacher = self._preparation(split), self.teacher
        return ConversationBatches(
            preparation.cache,
            preparation.corpus,
            teacher.image_id,
            teacher.config.vision,
            teacher.preprocessing,
            self.settings.batch,
            self.settings.seed,
            content,
            always_pixels=self.always_pixels,
            limit=self.limit,
            files=files,
        )

    def require(self, contents: Sequence[Content], files: tuple[int, ...] | None = None) -> None:
        """Raise UsageError if one of the contents has no training conversation."""
        for content in contents:
            self.batches(content, files).records()

    @property
    def origin(self) -> dict[str, Any]:
        """The options that determine the answers; known before the caches are filled."""
        return {
            "target": str(self.teacher.directory),
            "target_digest": self.teacher.digest(),
            "corpus": self.corpora[0].about,
            "--answers": self.settings.answers,
            "--temperature": self.settings.temperature,
            "--seed": self.settings.seed,
        }

    @property
    def manifest(self) -> dict[str, Any]:
        """The options that determine training; known after the caches are filled."""
        count = len(self.batches("all").cache.records())
        return {**self.origin, "the number of conversations (--samples)": count}


def open_teacher_data(settings: DataSettings, run: RunSettings) -> TeacherData:
    """Load the target and open its corpora. Writes nothing."""
    processes, device = Processes(), pick_device(run.device)
    if run.accelerate:
        processes, device = join_processes(device)
    machine = Machine(device, run.workers, False, CHECKPOINT_SECONDS, processes)
    teacher = Teacher(resolve(settings.target, "torch"), str(device), run.dtype)
    directory = settings.answers_dir or run.out / "answers"
    corpora = open_corpora(settings, teacher.config)
    return TeacherData(teacher, directory, corpora, settings, machine)
