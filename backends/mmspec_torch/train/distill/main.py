"""The commands behind `mmspec train distill` and `mmspec train heads`."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import torch
from rich.console import Console

from mmspec import errors
from mmspec.heads.config import HeadConfig
from mmspec.hub import resolve
from mmspec_torch.train import log, loop
from mmspec_torch.train.distill import heads
from mmspec_torch.train.distill.acceptance import Score
from mmspec_torch.train.distill.corpus import Corpus, File, World
from mmspec_torch.train.distill.method import Method
from mmspec_torch.train.distill.prepare import Want
from mmspec_torch.train.distill.report import REPORT
from mmspec_torch.train.distill.supply import Supply, held_out_of
from mmspec_torch.train.distill.teacher import Teacher
from mmspec_torch.train.heads import build
from mmspec_torch.train.main import device
from mmspec_torch.train.recipe import TASK_SHARES
from mmspec_torch.train.team import Accelerated, Alone, accelerated

TEXT_SHARES = {"told": 1.0}
SHARES = {task: share for task, share in TASK_SHARES.items() if task != "drill"}
"""What a target is asked of the drawn world: not the drills, which only teach it to see."""
SMALL = 48
"""Pixels of pictures that nobody looks at."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where training runs and what it writes."""

    device: str = "auto"
    dtype: str = "auto"
    """Of the target."""
    threads: int = 0
    workers: int = 1
    board: bool = False
    team: bool = False
    checkpoint_seconds: float = 60.0


@dataclass(frozen=True, slots=True)
class Lessons:
    """Where conversations come from and how many are made."""

    target: str
    directory: Path
    want: Want
    data: Path | None = None
    images: Path | None = None
    held_out: int | None = None
    """Conversations to judge by; None: as `held_out_of` has it."""
    positions_per_batch: int = 4096


@dataclass(frozen=True, slots=True)
class Shape:
    """What a head is to look like, as far as it is not given by its target."""

    slots: int = build.SLOTS
    queries: int | None = None
    vision: str = "none"
    inner: int | None = None

    def config(self, kind: str, teacher: Teacher) -> HeadConfig:
        """A head's config for a target."""
        return build.head_config(
            kind,
            teacher.config,
            slots=self.slots,
            queries=self.queries,
            vision=self.vision,
            inner=self.inner,
        )


@dataclass(frozen=True, slots=True)
class Entry:
    """One head of a recipe."""

    name: str
    kind: str
    method: Method = field(default_factory=Method)
    answers: str = "target"
    shape: Shape = field(default_factory=Shape)


TWO_STAGE = Method(schedule="msd")
RECIPE = (
    Entry("msd", "msd"),
    Entry("eagle", "eagle"),
    Entry("flash", "flash"),
    Entry("medusa", "medusa"),
    Entry("hydra", "hydra"),
    Entry("msd-two-stage", "msd", TWO_STAGE),
    Entry("msd-stage-1", "msd", replace(TWO_STAGE, schedule="text")),
    Entry("msd-dataset", "msd", answers="dataset"),
    Entry("flash-whole", "flash", shape=Shape(queries=0)),
)
"""The bundled heads, then those that are trained for comparison."""


def distill(
    kind: str,
    shape: Shape,
    method: Method,
    budget: loop.Budget,
    lessons: Lessons,
    out: Path,
    place: Place,
) -> Score:
    """Train one head; returns how it does on held-out conversations."""
    supply = supplied(lessons, place)
    config = shape.config(kind, supply.teacher)
    heads.check(config, supply, method, out)
    with opened(out, place, supply) as run_log:
        supply.prepare(run_log)
        return heads.train(config, supply, method, budget, out, run_log)


def train_all(
    names: Sequence[str], lessons: Lessons, budget: loop.Budget, out: Path, place: Place
) -> dict[str, Score]:
    """Train several heads of RECIPE on the same answers, each in a directory of its name.

    Heads that are there are left alone. Raises UsageError for an unknown name.
    """
    known = {entry.name: entry for entry in RECIPE}
    for name in names:
        if name not in known:
            raise errors.choice("head of the recipe", name, known)
    missing = [name for name in names if not (out / name / REPORT).exists()]
    first, scores = supplied(lessons, place), {}
    with opened(out, place, first) as run_log:
        supplies = {"target": first}
        first.prepare(run_log)
        for entry in (known[name] for name in missing):
            supply = _supply(entry.answers, supplies, run_log)
            config, where = entry.shape.config(entry.kind, supply.teacher), out / entry.name
            scores[entry.name] = heads.train(config, supply, entry.method, budget, where, run_log)
    return scores


def _supply(answers: str, supplies: dict[str, Supply], run_log: log.Log) -> Supply:
    """The conversations answered by the target, or as many answered by the data."""
    if answers not in supplies:
        other = supplies["target"]
        count = other.conversations
        want = replace(other.want, answers=answers, samples=count, minutes=None)
        directory = other.directory.with_name(f"{other.directory.name}-{answers}")
        supplies[answers] = replace(other, want=want, directory=directory)
        supplies[answers].prepare(run_log)
    return supplies[answers]


@contextmanager
def opened(out: Path, place: Place, supply: Supply) -> Iterator[log.Log]:
    """Set threads, and open the log of a run in a directory once all is found to be well."""
    supply.check()
    if place.threads:
        torch.set_num_threads(place.threads)
    if supply.machine.team.rank:
        with log.unwritten() as run_log:
            yield run_log
        return
    with log.opened(out / "log.csv", Console(), board=place.board) as run_log:
        yield run_log


def supplied(lessons: Lessons, place: Place) -> Supply:
    """Load the target and say where its conversations are."""
    team: Accelerated | Alone = accelerated() if place.team else Alone()
    where = team.device if isinstance(team, Accelerated) else device(place.device)
    machine = loop.Machine(where, place.workers, False, place.checkpoint_seconds, team)
    teacher = Teacher(resolve(lessons.target, "torch"), str(where), place.dtype)
    return Supply(
        teacher,
        lessons.directory,
        corpora(lessons, teacher),
        lessons.want,
        machine,
        lessons.positions_per_batch,
        lessons.held_out or held_out_of(lessons.want.samples),
    )


def corpora(lessons: Lessons, teacher: Teacher) -> tuple[Corpus, Corpus]:
    """Conversations to learn from and held-out ones: a file's, else the drawn world's."""
    if lessons.data:
        images = lessons.images or lessons.data.parent
        return File(lessons.data, images), File(lessons.data, images, "held-out")
    vision, seed = teacher.config.vision, lessons.want.seed
    shares = SHARES if vision else TEXT_SHARES
    size = vision.image_size if vision else SMALL
    return World(shares, size, "train", seed), World(shares, size, "held-out", seed)
