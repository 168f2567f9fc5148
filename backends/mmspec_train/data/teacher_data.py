"""A teacher with its prepared conversations, shared by all heads and drafts trained from it."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import torch
from torch import Tensor

from mmspec.checkpoints.hub import resolve
from mmspec.decoding.sampling import Sampling
from mmspec.ground.errors import ImageError
from mmspec.ground.output_files import make_directory
from mmspec.prompt.images import Picture
from mmspec_torch.device.devices import find_device
from mmspec_train.data.answers import answer_all
from mmspec_train.data.batch import EMPTY, Batch, ConversationRecord, collate, tokenize
from mmspec_train.data.corpus import Corpus, open_corpora
from mmspec_train.data.stored import ConversationBatches, TeacherCache
from mmspec_train.data.teacher import Teacher
from mmspec_train.run.log import Log
from mmspec_train.run.machine import Machine, Source
from mmspec_train.run.run_manifest import check_manifest, claim
from mmspec_train.settings import Content, DataSettings, RunSettings, by_option

CHECKPOINT_SECONDS = 60.0
ANSWER_BATCHES_PER_POOL = 8
"""Number of `--answer-rows` batches whose conversations are sorted by length together."""
REMEDY = "give another --answers-dir, or the options of before"
Question = tuple[ConversationRecord, list[Picture]]
"""A conversation with the dataset's answers, and its images in order."""
Kind = TypeVar("Kind", bound=ConversationBatches)
Answer = tuple[ConversationRecord, Tensor | None]
"""A conversation with its answers, and its states and image rows [n + m, H] if it has them."""


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
        for split in ("train", "held-out"):
            self.preparation(split).check()

    def prepare(self, log: Log) -> None:
        """Fill both caches; held-out answers are always the target's own, greedy."""
        for line in self.corpora[0].check():
            log.say(line)
        for split in ("train", "held-out"):
            self.preparation(split).run(log)

    def _conversations(self, kind: type[Kind], content: Content, split: str) -> Kind:
        """Return the conversations of a split, "train" or "held-out", with this content."""
        settings, is_held_out = self.settings, split == "held-out"
        needs_states = self.needs_states or is_held_out
        if is_held_out:
            samples = settings.held_out or max(1, min(128, settings.samples // 5))
            settings = replace(settings, samples=samples, answers="target", temperature=0.0)
        elif not needs_states:
            settings = replace(settings, cache_gb=0.0)
        cache = TeacherCache(self.directory, split, self.teacher.config.text.hidden_size)
        place = cache, self.corpora[is_held_out], self.teacher, settings
        return kind(*place, content, needs_states, self.always_pixels, self.limit)

    def preparation(self, split: str) -> "Preparation":
        """Return what fills the cache of a split."""
        return self._conversations(Preparation, "all", split)

    def batches(self, content: Content, split: str = "train") -> ConversationBatches:
        """Return batches of a split's conversations with this content."""
        return self._conversations(ConversationBatches, content, split)

    @property
    def held_out(self) -> ConversationBatches:
        """Held-out conversations in batches."""
        return self.batches("all", "held-out")

    def sources(self, contents: Sequence[Content]) -> list[Source[Batch]]:
        """Return a source of each content.  Raises UsageError if one has no conversation."""
        for content in contents:
            self.batches(content).records()
        return [self.batches(content).batches for content in contents]

    @property
    def origin(self) -> dict[str, Any]:
        """The options that determine answers and batches; known before the caches are filled."""
        names = ("answers", "answer_tokens", "temperature", "held_out", "batch", "seed")
        return {
            "target": str(self.teacher.directory),
            "target_digest": self.teacher.digest(),
            "corpus": self.corpora[0].about,
            **by_option(self.settings, *names),
        }

    @property
    def manifest(self) -> dict[str, Any]:
        """The options that determine training; known after the caches are filled."""
        count = len(self.batches("all").sample())
        return {**self.origin, "the number of conversations (--samples)": count}


def open_teacher_data(settings: DataSettings, run: RunSettings) -> TeacherData:
    """Load the target and open its corpora. Writes nothing."""
    machine = Machine(find_device(run.device), CHECKPOINT_SECONDS)
    teacher = Teacher(resolve(settings.target, "torch"), str(machine.device), settings.dtype)
    directory = settings.answers_dir or run.out / "answers"
    corpora = open_corpora(settings, teacher.config)
    return TeacherData(teacher, directory, corpora, settings, machine)


@dataclass
class Preparation(ConversationBatches):
    """Fills the cache of one split with answered conversations."""

    count: int = 0
    """Number of conversations answered or left out so far."""
    problems: list[str] = field(default_factory=list)
    """Why this process left out a conversation: it is too long, or an image cannot be read."""

    def __post_init__(self) -> None:
        self.stage = f"answers ({self.cache.split})"

    def check(self) -> None:
        """Raise MmspecError for wrong options or data. Writes nothing."""
        check_manifest(self.cache.manifest_file, self._manifest(), REMEDY)
        self.corpus.check()

    def run(self, log: Log) -> None:
        """Add conversations to the cache until all of `--samples` are finished."""
        make_directory(self.cache.directory)
        stopped = log.say_when_stopped(lambda: f"{self.stage}: stopped after {self.count}")
        with self.cache.lock(log), stopped:
            claim(self.cache.manifest_file, self._manifest(), REMEDY)
            records = self.cache.records(repair=True)
            self.count = records[-1].number + 1 if records else 0
            self._answer_pools(log)
            if self.teacher.captured_layers:
                self._store_layers(log)
        if self.problems:
            counts = f"{len(self.problems)} of {self.count} conversations left out"
            log.say(f"{self.stage}: {counts}, first {self.problems[0]}")

    def _answer_pools(self, log: Log) -> None:
        """Answer pools of conversations in batches of similar length; append each pool in order."""
        total = min(self.settings.samples, self.corpus.size or self.settings.samples)
        rows = self.settings.answer_rows
        size = ANSWER_BATCHES_PER_POOL * rows
        while self.count < total:
            end = min((self.count // size + 1) * size, total)
            questions = self.questions(range(self.count, end))
            questions.sort(key=lambda q: (len(q[0].prompts), self.length(q[0])))
            answers: list[Answer] = []
            for first in range(0, len(questions), rows):
                number = self.count + len(answers)
                log.show(self.stage, number, number / total)
                answers += self._answer(questions[first : first + rows])
            answers.sort(key=lambda answer: answer[0].number)
            self.cache.append(answers, self.settings.cache_bytes)
            self.count = end
        log.show(self.stage, self.count, 1.0)

    def _store_layers(self, log: Log) -> None:
        """Store the outputs of captured layers, so that steps need no forward of the target."""
        teacher, records = self.teacher, self.sample()
        layers = self.cache.layers(teacher.captured_layers)
        count, room = layers.count, self.settings.cache_bytes - self.cache.states.bytes
        for number, record in enumerate(records, start=1):
            columns = self.length(record)
            if not record.place or (end := record.place[0] + columns) <= count:
                continue
            if end * layers.row_bytes > room:
                break
            outputs = teacher.read(self.batch([record])).layer_outputs
            layers.write(end - columns, outputs[0])
            log.show(f"layers ({self.cache.split})", number, number / len(records))

    def questions(self, numbers: Iterable[int]) -> list[Question]:
        """Tokenize the corpus' conversations with these numbers, but those that are left out."""
        questions: list[Question] = []
        teacher = self.teacher
        for number in numbers:
            try:
                turns = self.corpus.turns(number)
                pictures = [picture for turn in turns for picture in turn.question.pictures]
                sides = tuple(map(teacher.sides, pictures))
            except ImageError as error:
                self.problems.append(str(error))
                continue
            record = tokenize(number, turns, teacher.template, teacher.tokenizer, teacher.end)
            record = msgspec.structs.replace(record, sides=sides)
            if self._fits(record):
                questions.append((record, pictures))
        return questions

    def _manifest(self) -> dict[str, Any]:
        return {
            "target": self.teacher.digest(),
            "data": self.corpus.about,
            "the preprocessing of images": repr(self.teacher.preprocessing),
            **by_option(self.settings, "answers", "temperature", "answer_tokens"),
            "--seed": self.settings.seed if self.settings.temperature else None,
        }

    def _answer(self, questions: Sequence[Question]) -> list[Answer]:
        settings, room = self.settings, self.settings.cache_bytes - self.cache.states.bytes
        if settings.answers == "target":
            options = settings.answer_tokens, Sampling(settings.temperature), settings.seed
            pairs = answer_all(self.teacher, questions, *options)
        else:
            states = self.states(questions) if room > 0 else [EMPTY] * len(questions)
            pairs = [(record, rows) for (record, _), rows in zip(questions, states, strict=True)]
        # On the host: the states of a pool would fill a GPU.
        return [(r, x.half().cpu() if 0 < 2 * x.numel() <= room else None) for r, x in pairs]

    def states(self, questions: Sequence[Question]) -> list[Tensor]:
        """Return the states and image rows [n + m, H] of conversations with their answers."""
        teacher, (records, pictures) = self.teacher, zip(*questions, strict=True)
        images = [teacher.features(list(map(teacher.pixels, row))) for row in pictures]
        batch = collate(records, (), (), teacher.image_id, teacher.config.vision)
        batch = teacher.read(batch, list(chain.from_iterable(images)))
        return [
            torch.cat((states[:columns], teacher.image_rows(features)))
            for states, columns, features in zip(batch.states, batch.lengths, images, strict=True)
        ]

    def _fits(self, record: ConversationRecord) -> bool:
        """True if the target has the positions for a conversation and its answers."""
        tokens, columns, limit = self.settings.answer_tokens, self.length(record), ""
        if self.settings.answers == "target":
            question = msgspec.structs.replace(record, answers=(), has_stop=())
            columns = self.length(question) + tokens * len(record.prompts)
            limit = f" with --answer-tokens {tokens}"
        most = self.teacher.config.text.max_position_embeddings
        if columns > most:
            needs = f"conversation {record.number} needs {columns} positions{limit}"
            self.problems.append(f"{needs}: the target has {most}")
        return columns <= most
