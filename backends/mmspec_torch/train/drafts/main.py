"""The commands behind `mmspec train draft`, and `mmspec train distill --kind draft`."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from mmspec import errors
from mmspec.config import ModelConfig
from mmspec.drafting import pooled_positions
from mmspec.hub import resolve
from mmspec_torch.backend import TorchBackend
from mmspec_torch.train import loop
from mmspec_torch.train.distill import report
from mmspec_torch.train.distill.acceptance import Score
from mmspec_torch.train.distill.lessons import Room
from mmspec_torch.train.distill.main import Lessons, Place, opened, supplied
from mmspec_torch.train.distill.method import Method
from mmspec_torch.train.distill.report import REPORT, begun, finish
from mmspec_torch.train.distill.supply import Supply
from mmspec_torch.train.drafts import export
from mmspec_torch.train.drafts.student import Shape, Student, read_student, untrained
from mmspec_torch.train.drafts.training import Stage, Training
from mmspec_torch.train.log import Log

BASELINES = ("pretrained", "finetuned", "llava", "language")
"""The four drafts of Gagrani et al. 2024 (2404.08856)."""
PRETRAINING = Stage("pretraining", whole=True)
PROJECTOR = Stage("projector", llama=False, share=0.1)
TUNING = Stage("tuning")


@dataclass(frozen=True, slots=True)
class Way:
    """How drafts are trained: method, budget of one draft, pooled positions of an image."""

    method: Method
    budget: loop.Budget
    pool: int | None = None

    def positions(self, config: ModelConfig) -> int:
        """Positions of one image; raises UsageError for a pooled size that cannot be."""
        return config.image_tokens if self.pool is None else pooled_positions(config, self.pool)


def train(
    student: Student, stages: Sequence[Stage], supply: Supply, way: Way, out: Path, log: Log
) -> Score:
    """Train a student stage after stage and write it to `out`; returns how it does held out.

    A run that was interrupted continues. Raises MmspecError as `report.begun` and `loop.run` do.
    """
    room = Room(student.positions, student.text.max_position_embeddings)
    supply = replace(supply, room=room, shown=student.sees)
    about = {**_about(student, stages, way), **supply.about}
    folder = begun(out, about, supply.machine.team)
    training = Training(student, supply, way.method, TUNING)
    for stage in stages:
        training = replace(training, stage=stage)
        training.require()
        phase, budget = training.phase(f"{out.name} {stage.name}"), scaled(way.budget, stage.share)
        loop.run(phase, budget, supply.machine, folder / f"{stage.name}.checkpoint", log)
    score = training.score()
    if supply.machine.team.is_first():
        export.save(student, supply.teacher.directory, out)
        finish(out, supply, way.method, way.budget, score)
    return score


def _about(student: Student, stages: Sequence[Stage], way: Way) -> dict[str, Any]:
    return {
        "text": asdict(student.text),
        "positions": student.positions,
        "stages": [stage.name for stage in stages],
        "method": asdict(way.method),
    }


def scaled(budget: loop.Budget, share: float) -> loop.Budget:
    """A share of a budget, at least a step."""
    steps = None if budget.steps is None else max(1, round(budget.steps * share))
    minutes = None if budget.minutes is None else budget.minutes * share
    return loop.Budget(steps, minutes)


@dataclass(frozen=True)
class Baselines:
    """The four drafts of one target, each in a directory of its name.

    source: a Llama to start from in place of a pretrained one of `shape`.
    """

    supply: Supply
    shape: Shape
    way: Way
    out: Path
    source: Path | None = None

    def check(self, names: Sequence[str]) -> None:
        """Raise MmspecError for drafts that cannot be."""
        if "pretrained" in names and self.source:
            raise errors.UsageError(
                f"--from gives the pretrained draft, {self.source}: leave it out of --only"
            )
        if self._target.vision is None and not {"llava", "language"}.isdisjoint(names):
            raise errors.UsageError(
                "a target without eyes has no llava draft: use --only finetuned"
            )
        self.shape.text(self._target)
        self.way.positions(self._target)
        if self.source:
            read_student(self.source, self._target, 0)

    def make(self, name: str, log: Log) -> Score | None:
        """Train a draft, and what it starts from; None where it is there already."""
        if (self.out / name / REPORT).exists():
            return None
        student, stages = self._planned(name, log)
        return train(student, stages, self.supply, self.way, self.out / name, log)

    def _planned(self, name: str, log: Log) -> tuple[Student, Sequence[Stage]]:
        if name == "pretrained":
            text = self.shape.text(self._target)
            return untrained(text, self.way.method.seed), [PRETRAINING]
        if name == "finetuned":
            return self._start(log), [TUNING]
        if name == "llava":
            return self._seeing(log), [PROJECTOR, TUNING]
        return self._language(log), []

    @property
    def _target(self) -> ModelConfig:
        return self.supply.teacher.config

    @cached_property
    def _positions(self) -> int:
        return self.way.positions(self._target)

    def _start(self, log: Log) -> Student:
        """The pretrained Llama."""
        if self.source:
            return read_student(self.source, self._target, 0)
        self.make("pretrained", log)
        return read_student(self.out / "pretrained", self._target, 0)

    def _seeing(self, log: Log) -> Student:
        """The pretrained Llama with an untrained projector."""
        assert self._target.vision
        start, features = self._start(log), self._target.vision.hidden_size
        made = untrained(start.text, self.way.method.seed, features, self._positions)
        made.llama.load_state_dict(start.llama.state_dict())
        return made

    def _language(self, log: Log) -> Student:
        """The Llama of the trained LLaVA."""
        self.make("llava", log)
        whole = read_student(self.out / "llava", self._target, self._positions)
        part = Student(whole.text)
        part.llama.load_state_dict(whole.llama.state_dict())
        return part


def make_baselines(
    names: Sequence[str],
    lessons: Lessons,
    shape: Shape,
    way: Way,
    out: Path,
    place: Place,
    source: str | None = None,
) -> dict[str, Score]:
    """Train the named baselines in directories of `out`; what is there is left alone."""
    reads = way.method.loss.divergence != "ce"
    supply = replace(supplied(lessons, place), reads=reads)
    start = resolve(source, "torch") if source else None
    made = Baselines(supply, shape, way, out, start)
    made.check(names)
    with opened(out, place, supply) as log:
        supply.prepare(log)
        scores = {name: made.make(name, log) for name in names}
    return {name: score for name, score in scores.items() if score}


def distill(student: str, way: Way, lessons: Lessons, out: Path, place: Place) -> Score:
    """Teach a draft that exists what the target says.

    Raises UsageError where it has another tower than the target, or another vocabulary.
    """
    supply = supplied(lessons, place)
    directory = resolve(student, "torch")
    read = read_student(directory, supply.teacher.config, way.positions(supply.teacher.config))
    if read.sees:
        same_tower(directory, supply)
    report.check(out, {**_about(read, [TUNING], way), **supply.source})
    with opened(out, place, supply) as log:
        supply.prepare(log)
        return train(read, [TUNING], supply, way, out, log)


def same_tower(directory: Path, supply: Supply) -> None:
    """Refuse a draft that sees with another tower than the target's."""
    model: Any = TorchBackend().load(directory, device="cpu", dtype="float32")
    target: Any = TorchBackend().load(supply.teacher.directory, device="cpu", dtype="float32")
    if model.tower != target.tower:
        raise errors.UsageError(
            f"{directory} has another vision tower than the target: make a draft on the target's "
            "with `mmspec train draft --only llava`"
        )
