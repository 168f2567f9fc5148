"""The heads of `mmspec train distill`, which learn from a teacher."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from mmspec.checkpoints.head_config import HeadConfig
from mmspec.ground.errors import UsageError
from mmspec_train.data.batch import Batch
from mmspec_train.data.teacher_data import TeacherData
from mmspec_train.distillation.objective import DraftStarts, all_starts, draw_starts
from mmspec_train.distillation.training import Trainee
from mmspec_train.heads.head import Head
from mmspec_train.heads.head_checkpoint import head_config, new_head, save_head
from mmspec_train.run.loop import Phase
from mmspec_train.settings import HeadMethodSettings, HeadShape


@dataclass
class HeadTrainee(Trainee):
    """A head that is trained from a teacher."""

    module: Head
    method: HeadMethodSettings

    def __post_init__(self) -> None:
        self.module.matrix = self.data.teacher.output_matrix

    @property
    def manifest(self) -> dict[str, Any]:
        """The head's config and the method."""
        return {"head": self.module.config.to_config(), **self.method.options}

    def phases(self) -> Sequence[Phase[Batch]]:
        """The only phase: all of the head's modules."""
        records = self.data.batches("all").records()
        answers = chain.from_iterable(chain.from_iterable(r.answers for r in records))
        self.module.begin(self.data.teacher, answers)
        return [self.phase([(self.module, self.method.rate)], self.loss)]

    def save(self, directory: Path) -> None:
        """Write the head's checkpoint."""
        save_head(self.module, directory)

    def loss(self, conversations: Batch) -> Tensor:
        """Return the loss of a batch; noise needs gradients enabled."""
        head, method = self.module, self.method
        batch = self.data.teacher.read(conversations)
        depth = training_depth(head.config, method)
        starts = draw_starts(all_starts(batch, depth), method.anchors)
        batch = inputs = starts.restrict(batch)
        if torch.is_grad_enabled() and method.noise:  # which no block drafter takes
            # EAGLE's uniform noise of width --noise · 512 / length.
            noise = torch.rand_like(batch.states) - 0.5
            lengths = torch.tensor(batch.lengths, device=noise.device).view(-1, 1, 1)
            states = batch.states + noise * (method.noise * 512 / lengths)
            inputs = replace(batch, states=states)
        return head.loss(head(inputs, starts), batch, starts, method)

    def guesses(self, conversations: Batch) -> tuple[Batch, DraftStarts, Tensor]:
        """Return the tokens of the head's chains from every start."""
        head, gamma = self.module, self.method.gamma
        batch = self.data.teacher.read(conversations)
        starts = all_starts(batch, min(gamma, head.config.slots or gamma))
        return batch, starts, head.likeliest(head(batch, starts))


def training_depth(config: HeadConfig, method: HeadMethodSettings) -> int:
    """Return the number of tokens that a head drafts from a starting point in training."""
    return config.slots if config.block else min(method.rollout, config.slots or method.rollout)


def new_trainee(
    kind: str, shape: HeadShape, method: HeadMethodSettings, data: TeacherData
) -> HeadTrainee:
    """Return a head with random weights that learns from the target of `data`."""
    config = head_config(kind, data.teacher.config, shape)
    data.teacher.captured_layers = config.captured_layers(data.teacher.config)
    if config.eagle3 and method.loss == "ce" and config.eagle3.draft_vocab_size < config.vocab_size:
        raise UsageError("--loss ce needs every token of the answers: leave out --draft-vocabulary")
    schedule = method.schedule or ("msd" if kind == "msd" else "mixed")
    head = new_head(config, data.settings.seed)
    return HeadTrainee(head, data, replace(method, schedule=schedule))
