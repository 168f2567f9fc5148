"""The drafts of `mmspec train draft` and of `mmspec train distill --kind draft`.

Shape letters: B sequences, P positions of one image, W width of the tower, n columns with a loss,
V vocabulary.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from mmspec.chat.calibration import content_digest
from mmspec.checkpoints.config import ModelConfig
from mmspec.checkpoints.hub import resolve
from mmspec.checkpoints.stored_config import stored_config
from mmspec.families.llava import LlavaVision
from mmspec.ground import errors
from mmspec_torch.network.vision import TorchFeatures
from mmspec_train.data.batch import Batch, in_columns
from mmspec_train.data.teacher_data import TeacherData, open_teacher_data
from mmspec_train.distillation.objective import (
    DraftScore,
    DraftStarts,
    all_starts,
    divergence,
    log_probabilities,
    target_log_probabilities,
)
from mmspec_train.distillation.training import REPORT_FILE, Trainee, open_run, train
from mmspec_train.drafts.draft_model import DraftModel, image_positions, read_draft, save_draft
from mmspec_train.llama import llama_of_shape
from mmspec_train.run.log import Log
from mmspec_train.run.loop import Phase
from mmspec_train.run.run_manifest import NEW_OUT, check_manifest
from mmspec_train.settings import (
    BASELINES,
    Budget,
    DataSettings,
    LlamaShape,
    MethodSettings,
    RunSettings,
    by_option,
)

PROJECTOR_SHARE = 0.1
"""Share of the training budget that the projector's phase gets beside the whole of tuning."""
FINISHED = f"this draft is finished: {NEW_OUT}"
PLANS: dict[str, tuple[str | None, bool, Sequence[str]]] = {
    "pretrained": (None, False, ["pretraining"]),
    "finetuned": ("pretrained", False, ["tuning"]),
    "llava": ("pretrained", True, ["projector", "tuning"]),
    "language": ("llava", False, []),
}
"""For each baseline: the one it starts from or None, whether it has vision, its stages."""


@dataclass
class DraftTrainee(Trainee):
    """A draft model that is trained from a teacher.

    Conversations longer than the draft's positions are left out.
    """

    module: DraftModel
    phase_names: Sequence[str] = ("tuning",)
    """Phases to run: "pretraining" (text only, every token), "projector", "tuning"."""
    start: Path | None = None
    """The checkpoint of `--student` or `--from`."""

    def __post_init__(self) -> None:
        limit = self.module.text.max_position_embeddings, self.module.positions or 1
        self.data = replace(self.data, limit=limit, always_pixels=self.module.sees)

    @property
    def manifest(self) -> dict[str, Any]:
        """The draft's start and sizes, its stages and the method."""
        return {
            "start": self.start and content_digest(self.start),
            "text": asdict(self.module.text),
            "positions": self.module.positions,
            "stages": list(self.phase_names),
            **by_option(self.method),
        }

    def phases(self) -> Sequence[Phase[Batch]]:
        """Return those named by `phase_names`."""
        rate, projector = self.method.rate, self.module.multi_modal_projector
        head_rate = 0.0 if self.module.text.tie_word_embeddings else rate
        text = [(self.module.language_model, rate), (self.module.lm_head, head_rate)]
        alone = [(projector, rate)] if projector else []
        phases = {
            "pretraining": partial(self.phase, text, self.text_loss, ["text"], is_evaluated=False),
            "projector": partial(self.phase, alone, self.loss, ["images"], PROJECTOR_SHARE),
            "tuning": partial(self.phase, [*text, *alone], self.loss),
        }
        return [phases[name](name=name) for name in self.phase_names]

    def save(self, directory: Path) -> None:
        """Write the draft's checkpoint, with the target's tower if the draft has vision."""
        save_draft(self.module, self.data.teacher.directory, directory)

    def text_loss(self, conversations: Batch) -> Tensor:
        """Return the mean cross-entropy of every token but the first."""
        columns = self._columns(conversations)
        after = columns.ids[:, 1:]
        ends = torch.tensor(columns.lengths, device=after.device).unsqueeze(1) - 1
        inside = torch.arange(after.shape[1], device=after.device) < ends
        states = self.module(columns, ())[:, :-1][inside]
        q = log_probabilities(states, self.module.lm_head.weight)
        return divergence("ce", q, q, after[inside]).mean()

    def loss(self, conversations: Batch) -> Tensor:
        """Return the mean loss over the columns that have one."""
        teacher = self.data.teacher
        features = teacher.features(conversations.pixels)
        p = None
        if self.method.loss != "ce":  # before q, whose graph would fill memory beside this forward
            batch = teacher.read(conversations, features)
            p = target_log_probabilities(batch, teacher.output_matrix)
        q = self.log_probabilities(conversations, features)
        tokens = conversations.targets[conversations.has_loss]
        return divergence(self.method.loss, q if p is None else p, q, tokens).mean()

    def _columns(self, conversations: Batch) -> Batch:
        """Return the conversations in the draft's columns: an image has P, or one if P is 0."""
        teacher, positions = self.data.teacher, self.module.positions
        blank = teacher.image_id if self.module.sees else teacher.tokenizer.newline_id
        records = conversations.records
        sizes = [[positions] * record.images if positions else [] for record in records]
        return self.data.machine.on_device(in_columns(records, blank, sizes))

    def log_probabilities(self, conversations: Batch, features: Sequence[TorchFeatures]) -> Tensor:
        """Return the draft's log-probabilities [n, V] at the columns with a loss.

        features: those of the target's tower, of every image.
        """
        columns, images = self._columns(conversations), features if self.module.sees else ()
        # Clones: tensors that the tower computed in inference mode take part in no backward pass.
        rows = [image.pool(self.module.positions).rows.clone().float() for image in images]
        states = self.module(columns, rows)[columns.has_loss]
        return log_probabilities(states, self.module.lm_head.weight)

    def guesses(self, conversations: Batch) -> tuple[Batch, DraftStarts, Tensor]:
        """Return the tokens of the draft's chains from every start."""
        features = self.data.teacher.features(conversations.pixels)
        batch = self.data.teacher.read(conversations, features)
        starts = all_starts(batch, self.method.gamma)
        tokens = self.log_probabilities(batch, features).argmax(-1)
        return batch, starts, tokens[starts.loss_rows(batch)]


@dataclass(frozen=True)
class Baselines:
    """The baseline drafts of one target, each in a directory named after it."""

    data: TeacherData
    shape: LlamaShape
    method: MethodSettings
    budget: Budget
    out: Path
    source: Path | None = None
    """A Llama checkpoint to start from, in place of the pretrained baseline."""

    def check(self, names: Sequence[str]) -> None:
        """Raise MmspecError if a named draft, or one that it starts from, cannot be trained."""
        target = self.data.teacher.config
        if "pretrained" in names and self.source:
            raise errors.UsageError(
                f"--from gives the pretrained draft, {self.source}: leave it out of --only"
            )
        if not {"llava", "language"}.isdisjoint(names):
            require_llava(target)
            image_positions(target, self.method.pool)
        text = llama_of_shape(self.shape, target.text.vocab_size)
        start = self.source and content_digest(self.source)
        options = {"method": asdict(self.method), "start": start, "data": self.data.origin}
        own = options | {"budget": asdict(self.budget), "samples": self.data.settings.samples}
        used: set[str | None] = {*names}
        for name in reversed(PLANS):  # each draft stands behind the one that it starts from
            if name not in used or (name == "pretrained" and self.source):
                continue
            used.add(PLANS[name][0])
            file = self.out / name / REPORT_FILE
            check_manifest(file, own if name in names else options, FINISHED)
            if not self.source and file.exists() and stored_config(file.parent).text != text:
                raise errors.UsageError(
                    f"{file.parent} is a finished draft of other sizes: give another --out, or the "
                    "sizes of before (--layers, --width, --heads, --ffn, --positions)"
                )
        if self.source:
            read_draft(self.source, target, self.method.pool)
            self.data.teacher.check_vocabulary(self.source)

    def make(self, name: str, log: Log) -> DraftScore | None:
        """Train a draft and those it starts from; returns None if it is already finished."""
        if (self.out / name / REPORT_FILE).exists():
            return None
        start, sees, stages = PLANS[name]
        target, seed = self.data.teacher.config, self.data.settings.seed
        if start == "pretrained" and self.source:
            model = read_draft(self.source, target, self.method.pool, sees, seed)
        elif start:
            self.make(start, log)
            model = read_draft(self.out / start, target, self.method.pool, sees, seed)
        else:
            model = DraftModel(llama_of_shape(self.shape, target.text.vocab_size), seed)
        trainee = DraftTrainee(model, self.data, self.method, stages, self.source)
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
    baselines = Baselines(data, shape, method, budget, run.out, start)
    baselines.check(names)
    with open_run(run, data) as log:
        return {name: score for name in names if (score := baselines.make(name, log))}


def draft_trainee(student: str, method: MethodSettings, data: TeacherData) -> DraftTrainee:
    """Return an existing draft to train; raises UsageError for another tower or vocabulary."""
    directory = resolve(student, "torch")
    model = read_draft(directory, data.teacher.config, method.pool)
    data.teacher.check_vocabulary(directory)
    data = replace(data, needs_states=method.loss != "ce")
    return DraftTrainee(model, data, method, start=directory)
