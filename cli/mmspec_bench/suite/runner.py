"""Runs a suite: every method answers every sample in turn, with one row per answer."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from pathlib import Path

from mmspec.chat.engine import Engine
from mmspec.ground.errors import MmspecError, UsageError
from mmspec.ground.output_files import replace_text
from mmspec.ground.progress import Progress
from mmspec.prompt.conversation import Message
from mmspec_bench.measure.timing import rotate
from mmspec_bench.suite.answerer import Answerer, answer_row, open_answerer
from mmspec_bench.suite.drafts import engine_for
from mmspec_bench.suite.methods import read_method
from mmspec_bench.suite.replay import with_answers
from mmspec_bench.suite.rows import PLAIN, ROWS, AnswerRow, append, lines
from mmspec_bench.suite.run_folder import SuiteSettings, description, open_folder, record_omission
from mmspec_bench.suite.sources import SuiteSample, suite_samples

UNREAD = 24
"""Pixels of a synthetic image for a target of text alone, which is asked without it."""


@dataclass(frozen=True, slots=True)
class Runner:
    """The methods and samples of a run."""

    answerers: Sequence[Answerer]
    samples: Sequence[SuiteSample]
    """All samples; the order of methods rotates by their indices."""
    file: Path
    """File to which a sample's rows are written once the last method has answered it."""
    note_omission: Progress | None = None
    """Shows each broken sample, which is recorded; None raises the sample's error."""

    def run(self, old_rows: Sequence[AnswerRow]) -> Iterator[list[AnswerRow]]:
        """Answer every sample without `old_rows`; yield its rows once they are on disk."""
        names = {row.sample for row in old_rows}
        for place, sample in enumerate(self.samples):
            if sample.name in names:
                continue
            try:
                rows = self._rows(place, sample)
            except MmspecError as error:
                if self.note_omission is None:
                    error.args = (f"{sample.name}: {error}; --skip-bad leaves it out",)
                    raise
                record_omission(self.file.parent, sample.name, str(error))
                self.note_omission(f"left out {sample.name}: {error}")
                rows = []
            append(self.file, rows)
            yield rows

    def drop_partial(self, rows: Sequence[AnswerRow]) -> list[AnswerRow]:
        """Drop all rows of each sample that lacks some, also from the file, as a torn last line.

        All methods answer such a sample again, because their times are compared.
        """
        answers: dict[str, list[tuple[str, int]]] = {}
        for row in rows:
            answers.setdefault(row.sample, []).append((row.method, row.turn))
        samples = [sample for sample in self.samples if sample.name in answers]
        names = {each.name for each in samples if self._lacks_some(each, answers[each.name])}
        complete = [row for row in rows if row.sample not in names]
        replace_text(self.file, lines(complete))
        return complete

    def _lacks_some(self, sample: SuiteSample, answers: list[tuple[str, int]]) -> bool:
        """True unless every method has one answer to each question, or nobody can read them."""
        try:
            turns = range(len(sample.read()))
        except MmspecError:
            return False
        methods = (answerer.method.name for answerer in self.answerers)
        return sorted(answers) != sorted(product(methods, turns))

    def warm_up(self) -> None:
        """Answer the first sample that is not broken by every method, without rows."""
        for sample in self.samples:
            try:
                questions = sample.read()
                for answerer in self.answerers:
                    answerer.answer(questions)
            except MmspecError:
                continue
            return

    def _rows(self, place: int, sample: SuiteSample) -> list[AnswerRow]:
        questions = sample.read()
        transcripts = [answerer.answer(questions) for answerer in rotate(self.answerers, place)]
        plain = next((it for it in transcripts if it.answerer.method.name == PLAIN), None)
        return [
            answer_row(sample, turn, transcript, plain)
            for transcript in transcripts
            for turn in range(len(questions))
        ]


def prepare(
    engines: Sequence[Engine],
    settings: SuiteSettings,
    folder: Path,
    *,
    resume: bool,
    note_omission: Progress | None,
    progress: Progress,
) -> tuple[Runner, list[AnswerRow]]:
    """Open the run's folder and warm up; returns the runner and the rows in the folder.

    engines: one for each draft, with the same target.  note_omission: as the runner's.  Raises
    UsageError for a method that the models cannot do, an unknown suite, or another run there.
    """
    if settings.memory and resume:
        raise UsageError("--resume: what lookup remembers (--memory) is not stored; begin anew")
    methods = [read_method(name) for name in settings.methods]
    answerers = [open_answerer(it, engine_for(it, engines), settings.options) for it in methods]
    progress("reading the suite")
    samples = shard(_samples(engines[0], settings), settings.shard)
    progress("reading the models' files")
    rows = open_folder(folder, description(settings, engines), resume=resume)
    runner = Runner(answerers, samples, folder / ROWS, note_omission)
    progress("warming up")
    runner.warm_up()
    progress("comparing rows and samples")
    old_rows = runner.drop_partial(rows)
    if settings.memory:  # opened now, so that the warm-up is not remembered
        runner = replace(runner, answerers=[each.with_memory() for each in answerers])
    return runner, old_rows


def shard(samples: Sequence[SuiteSample], part: str) -> Sequence[SuiteSample]:
    """Part 'i/n': every n-th sample from the i-th on; raises UsageError."""
    first, _, count = part.partition("/")
    if not (first.isdecimal() and count.isdecimal() and 1 <= int(first) <= int(count)):
        raise UsageError(f"--shard {part!r}: give which of how many, such as 1/2")
    return samples[int(first) - 1 :: int(count)]


def _samples(engine: Engine, settings: SuiteSettings) -> list[SuiteSample]:
    vision = engine.target.model.config.vision
    samples = suite_samples(
        settings.suite,
        vision.image_size if vision else UNREAD,
        limit=settings.limit,
        tasks=settings.tasks,
        seed=settings.seed,
    )
    if vision is None:
        samples = [replace(each, read=partial(_texts, each)) for each in samples]
    if settings.target_answers:
        answers, most = settings.target_answers, settings.max_new_tokens
        return with_answers(samples, answers, engine.target, most)
    return samples


def _texts(sample: SuiteSample) -> tuple[Message, ...]:
    """The questions of a sample without their images."""
    return tuple(
        replace(message, parts=tuple(p for p in message.parts if isinstance(p, str)))
        for message in sample.read()
    )
