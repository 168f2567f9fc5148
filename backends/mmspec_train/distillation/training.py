"""Training of a head or a draft from a teacher: prepare the data, train, evaluate, save."""

import json
import shutil
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from mmspec.diagnostics.provenance import provenance
from mmspec.ground.output_files import replace_text
from mmspec_torch.backend import TorchBackend
from mmspec_train.data.batch import Batch
from mmspec_train.data.stored import pick_source
from mmspec_train.data.teacher_data import TeacherData, open_teacher_data
from mmspec_train.distillation.objective import DraftScore, DraftStarts, target_log_probabilities
from mmspec_train.run.log import Log, open_log
from mmspec_train.run.loop import Phase, run_phases
from mmspec_train.run.machine import prepare_process
from mmspec_train.run.run_manifest import NEW_OUT, check_manifest, claim, manifest_of
from mmspec_train.settings import (
    SCHEDULES,
    Budget,
    Content,
    DataSettings,
    MethodSettings,
    RunSettings,
)

REPORT_FILE = "training.json"
"""Name of the report beside a finished checkpoint: method, data and score. Written last."""


@dataclass
class Trainee(ABC):
    """A head or a draft that is trained from a teacher."""

    module: nn.Module
    """The module with every tensor that is saved."""
    data: TeacherData
    method: MethodSettings

    @property
    @abstractmethod
    def manifest(self) -> dict[str, Any]:
        """The options that determine this training."""

    @abstractmethod
    def phases(self) -> Sequence[Phase[Batch]]:
        """Return the phases of training, in order.  The answers are prepared by now."""

    @abstractmethod
    def save(self, directory: Path) -> None:
        """Write the trained checkpoint to `directory`."""

    @abstractmethod
    def guesses(self, conversations: Batch) -> tuple[Batch, DraftStarts, Tensor]:
        """Return held-out conversations, all their starts, and the drafted tokens [D, B, A]."""

    def phase(
        self,
        parts: Sequence[tuple[nn.Module, float]],
        loss: Callable[[Batch], Tensor],
        contents: Sequence[Content] = (),
        share: float = 1.0,
        name: str = "",
        is_evaluated: bool = True,
    ) -> Phase[Batch]:
        """Return a phase on these contents, by default those of the method's schedule.

        Raises UsageError if there is no conversation with one of them.
        """
        data, method = self.data, self.method
        contents = contents or SCHEDULES[method.schedule or "mixed"]
        return Phase(
            *(name, self.module, parts, loss, data.sources(contents), data.held_out.batches, share),
            pick=partial(pick_source, len(contents), data.settings.seed),
            evaluate=(lambda: self.score().figures()) if is_evaluated else None,
            every=method.every,
            final_rate=method.final_rate,
            step_samples=method.step_samples,
            samples=lambda batch: len(batch.lengths),
        )

    @torch.no_grad()
    def score(self) -> DraftScore:
        """Return the score on all held-out conversations, computed in float32."""
        score, machine = DraftScore(), self.data.machine
        with torch.autocast(machine.device.type, enabled=False):
            for conversations in self.data.held_out.once():
                batch, starts, guesses = self.guesses(machine.on_device(conversations))
                log_p = target_log_probabilities(batch, self.data.teacher.output_matrix)
                score.add(guesses == log_p.argmax(dim=-1)[starts.loss_rows(batch)], starts)
        return score


def distill(
    make: Callable[[TeacherData], Trainee], budget: Budget, settings: DataSettings, run: RunSettings
) -> DraftScore:
    """Make a trainee, prepare the answers and train into `run.out`; raises as `train` does."""
    trainee = make(open_teacher_data(settings, run))
    check_manifest(manifest_of(run.out), trainee.manifest | trainee.data.origin, NEW_OUT)
    with open_run(run, trainee.data) as log:
        return train(trainee, budget, run.out, log)


@contextmanager
def open_run(run: RunSettings, data: TeacherData) -> Iterator[Log]:
    """Check the data before writing, open the log, prepare the answers; raises MmspecError."""
    data.check()
    prepare_process(run)
    with open_log(run.out) as log:
        data.prepare(log)
        yield log


def train(trainee: Trainee, budget: Budget, out: Path, log: Log) -> DraftScore:
    """Train all phases, write the checkpoint to `out` and return the held-out score.

    Resumes an interrupted run. Raises UsageError if `out` contains a model or a run with other
    options, and MmspecError as `run_phase` does.
    """
    data, file, manifest = trainee.data, manifest_of(out), trainee.manifest
    claim(file, manifest | data.manifest, NEW_OUT)
    run_phases(trainee.phases(), budget, data.machine, file.parent, log, out.name)
    score = trainee.score()
    trainee.save(out)
    report = {
        "method": asdict(trainee.method),
        "start": manifest.get("start"),
        "samples": data.settings.samples,
        "budget": asdict(budget),
        "data": data.manifest,
        "held_out": {"tokens_per_round": score.tokens_per_round, "agreement": score.agreement},
        "provenance": provenance([TorchBackend()]),
    }
    replace_text(out / REPORT_FILE, json.dumps(report, indent=2) + "\n")
    shutil.rmtree(file.parent)
    return score
