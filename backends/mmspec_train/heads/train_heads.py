"""The heads of `mmspec train distill` and of `mmspec train heads`."""

from collections.abc import Sequence
from dataclasses import replace

from mmspec_train.distillation.acceptance import DraftScore
from mmspec_train.distillation.training import REPORT_FILE, distill, open_run, train
from mmspec_train.heads.head_checkpoint import head_config, untrained_head
from mmspec_train.heads.head_trainee import HeadTrainee
from mmspec_train.settings import (
    HEADS,
    Budget,
    DataSettings,
    HeadMethodSettings,
    HeadShape,
    RunSettings,
)
from mmspec_train.teacher.teacher_data import TeacherData, open_teacher_data


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


def train_several(
    kinds: Sequence[str], budget: Budget, settings: DataSettings, run: RunSettings
) -> dict[str, DraftScore]:
    """Train a head of each kind on the same answers, in directories named after the kinds.

    Finished heads are skipped. Without kinds it trains one of every kind.
    """
    data = open_teacher_data(settings, run)
    scores = {}
    with open_run(run, data) as log:
        data.prepare(log)
        for kind in kinds or HEADS:
            if not (run.out / kind / REPORT_FILE).exists():
                trainee = new_trainee(kind, HeadShape(), HeadMethodSettings(), data)
                scores[kind] = train(trainee, budget, run.out / kind, log)
    return scores


def new_trainee(
    kind: str, shape: HeadShape, method: HeadMethodSettings, data: TeacherData
) -> HeadTrainee:
    """Return an untrained head of a kind for a teacher."""
    config = head_config(kind, data.teacher.config, shape)
    return HeadTrainee(untrained_head(config, data.settings.seed), data, method)
