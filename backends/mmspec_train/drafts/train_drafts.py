"""The drafts of `mmspec train draft` and of `mmspec train distill --kind draft`."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from mmspec.checkpoints.config import ModelConfig
from mmspec.checkpoints.hub import resolve
from mmspec.drafters.views import pooled_positions
from mmspec.families.llava import LlavaVision
from mmspec.ground import errors
from mmspec_train.data.teacher_data import TeacherData, open_teacher_data
from mmspec_train.distillation.objective import DraftScore
from mmspec_train.distillation.training import REPORT_FILE, distill, open_run, train
from mmspec_train.drafts.draft_model import read_draft, untrained_draft
from mmspec_train.drafts.draft_trainee import DraftTrainee
from mmspec_train.llama import llama_of_shape
from mmspec_train.run.log import Log
from mmspec_train.settings import (
    BASELINES,
    Budget,
    DataSettings,
    LlamaShape,
    MethodSettings,
    RunSettings,
)

PLANS: dict[str, tuple[str | None, bool, Sequence[str]]] = {
    "pretrained": (None, False, ["pretraining"]),
    "finetuned": ("pretrained", False, ["tuning"]),
    "llava": ("pretrained", True, ["projector", "tuning"]),
    "language": ("llava", False, []),
}
"""For each baseline: the one it starts from or None, whether it has vision, its stages."""


@dataclass(frozen=True)
class Baselines:
    """The baseline drafts of one target, each in a directory named after it."""

    data: TeacherData
    shape: LlamaShape
    method: MethodSettings
    budget: Budget
    out: Path
    positions: int
    """Number of positions of an image in a draft with vision."""
    source: Path | None = None
    """A Llama checkpoint to start from, in place of the pretrained baseline."""

    def check(self, names: Sequence[str]) -> None:
        """Raise MmspecError if one of the named drafts cannot be trained."""
        target = self.data.teacher.config
        if "pretrained" in names and self.source:
            raise errors.UsageError(
                f"--from gives the pretrained draft, {self.source}: leave it out of --only"
            )
        if not {"llava", "language"}.isdisjoint(names):
            require_llava(target)
        llama_of_shape(self.shape, target.text.vocab_size)
        if self.source:
            read_draft(self.source, target, 0)
            self.data.teacher.check_vocabulary(self.source)

    def make(self, name: str, log: Log) -> DraftScore | None:
        """Train a draft and those it starts from; returns None if it is already finished."""
        if (self.out / name / REPORT_FILE).exists():
            return None
        start, sees, stages = PLANS[name]
        target, seed = self.data.teacher.config, self.data.settings.seed
        if start == "pretrained" and self.source:
            model = read_draft(self.source, target, self.positions, sees, seed)
        elif start:
            self.make(start, log)
            model = read_draft(self.out / start, target, self.positions, sees, seed)
        else:
            model = untrained_draft(llama_of_shape(self.shape, target.text.vocab_size), seed)
        trainee = DraftTrainee(model, self.data, self.method, stages)
        return train(trainee, self.budget, self.out / name, log)


def require_llava(target: ModelConfig) -> None:
    """Raise UsageError for a target whose images no small LLaVA sees."""
    if isinstance(target.vision, LlavaVision):
        return
    kind = "text-only target" if target.vision is None else target.family.model_type
    raise errors.UsageError(
        f"a {kind} has no llava draft, whose tower is CLIP's: use --only finetuned, or train a "
        "head with `mmspec train distill --kind eagle3`"
    )


def image_positions(target: ModelConfig, pool: int | None) -> int:
    """Return an image's position count: `pool`, or the target's if None.  Raises UsageError."""
    return target.image_tokens if pool is None else pooled_positions(target, pool)


def train_baselines(
    names: Sequence[str],
    source: str | None,
    shape: LlamaShape,
    method: MethodSettings,
    budget: Budget,
    settings: DataSettings,
    run: RunSettings,
) -> dict[str, DraftScore]:
    """Train the named baselines, each in a directory of `run.out`; finished ones are skipped.

    source: a Llama to start from, in place of the pretrained baseline. Without names all are
    trained, or with `source` all but the pretrained one.
    """
    names = names or (BASELINES[1:] if source else BASELINES)
    data = replace(open_teacher_data(settings, run), needs_states=method.loss != "ce")
    start = resolve(source, "torch") if source else None
    positions = image_positions(data.teacher.config, method.pool)
    baselines = Baselines(data, shape, method, budget, run.out, positions, start)
    baselines.check(names)
    with open_run(run, data) as log:
        scores = {name: baselines.make(name, log) for name in names}
    return {name: score for name, score in scores.items() if score}


def distill_draft(
    student: str, method: MethodSettings, budget: Budget, settings: DataSettings, run: RunSettings
) -> DraftScore:
    """Train a draft on the target's answers; raises UsageError for another tower or vocabulary."""
    data = open_teacher_data(settings, run)
    directory, target = resolve(student, "torch"), data.teacher.config
    model = read_draft(directory, target, image_positions(target, method.pool))
    data.teacher.check_vocabulary(directory)
    return distill(DraftTrainee(model, data, method), budget, run)
