"""The heads of `mmspec train distill` and of `mmspec train heads`."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from mmspec import errors
from mmspec_train.distillation.acceptance import DraftScore
from mmspec_train.distillation.training import REPORT_FILE, distill, open_run, train
from mmspec_train.heads.head_checkpoint import head_config, untrained_head
from mmspec_train.heads.head_trainee import HeadTrainee
from mmspec_train.run.log import Log
from mmspec_train.settings import (
    Budget,
    DataSettings,
    HeadMethodSettings,
    HeadShape,
    RunSettings,
)
from mmspec_train.teacher.teacher_data import TeacherData, open_teacher_data


@dataclass(frozen=True, slots=True)
class RecipeHead:
    """One head of a recipe."""

    name: str
    kind: str
    method: HeadMethodSettings = field(default_factory=HeadMethodSettings)
    answers: str = "target"
    shape: HeadShape = field(default_factory=HeadShape)


BUNDLED = tuple(RecipeHead(kind, kind) for kind in ("msd", "eagle", "flash", "medusa", "hydra"))
COMPARED = (
    RecipeHead("msd-two-stage", "msd", HeadMethodSettings(schedule="msd")),
    RecipeHead("msd-stage-1", "msd", HeadMethodSettings(schedule="text")),
    RecipeHead("msd-dataset", "msd", answers="dataset"),
    RecipeHead("flash-whole", "flash", shape=HeadShape(queries=0)),
)
"""Heads trained only to compare methods."""
RECIPE = {head.name: head for head in (*BUNDLED, *COMPARED)}


def distill_head(
    kind: str,
    shape: HeadShape,
    method: HeadMethodSettings,
    budget: Budget,
    settings: DataSettings,
    run: RunSettings,
) -> DraftScore:
    """Train one head; returns its score on held-out conversations."""
    data = open_teacher_data(settings, run)
    schedule = method.schedule or ("msd" if kind == "msd" else "mixed")
    trainee = new_trainee(kind, shape, replace(method, schedule=schedule), data)
    return distill(trainee, budget, run)


def train_recipe(
    names: Sequence[str], budget: Budget, settings: DataSettings, run: RunSettings
) -> dict[str, DraftScore]:
    """Train heads of RECIPE on the same answers, each in a directory named after it.

    Finished heads are skipped. Without names it trains the bundled ones. Raises UsageError for an
    unknown name.
    """
    for name in names:
        if name not in RECIPE:
            raise errors.choice("head of the recipe", name, RECIPE)
    heads = [RECIPE[name] for name in names] or BUNDLED
    scores = {}
    data = {"target": open_teacher_data(settings, run)}
    with open_run(run, data["target"]) as log:
        data["target"].prepare(log)
        for head in heads:
            out = run.out / head.name
            if (out / REPORT_FILE).exists():
                continue
            if head.answers not in data:
                data[head.answers] = _same_questions(data["target"], head.answers, log)
            trainee = new_trainee(head.kind, head.shape, head.method, data[head.answers])
            scores[head.name] = train(trainee, budget, out, log)
    return scores


def new_trainee(
    kind: str, shape: HeadShape, method: HeadMethodSettings, data: TeacherData
) -> HeadTrainee:
    """Return an untrained head of a kind for a teacher."""
    config = head_config(kind, data.teacher.config, shape)
    return HeadTrainee(untrained_head(config, data.settings.seed), data, method)


def _same_questions(data: TeacherData, answers: str, log: Log) -> TeacherData:
    """Prepare the same number of conversations with other answers ("target" or "dataset")."""
    settings = replace(
        data.settings, answers=answers, samples=data.conversations, answer_minutes=None
    )
    directory = data.directory.with_name(f"{data.directory.name}-{answers}")
    other = replace(data, settings=settings, directory=directory)
    other.prepare(log)
    return other
