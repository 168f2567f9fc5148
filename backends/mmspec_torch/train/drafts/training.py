"""Training a draft with its teacher: the loss of a batch, and how much the target would keep.

Shape letters: B sequences, L columns, D depths, P positions of one image, W width of the tower, n
learned columns, V vocabulary.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from mmspec_torch.llava import TorchFeatures
from mmspec_torch.train import loop
from mmspec_torch.train.distill.acceptance import Score
from mmspec_torch.train.distill.batch import Batch
from mmspec_torch.train.distill.curriculum import SCHEDULES, Kept, coin
from mmspec_torch.train.distill.loss import divergence, truth
from mmspec_torch.train.distill.method import Method
from mmspec_torch.train.distill.policy import continued, cuts, extended
from mmspec_torch.train.distill.supply import Supply
from mmspec_torch.train.drafts.seats import Columns, Seats, seats
from mmspec_torch.train.drafts.student import Student
from mmspec_torch.train.exam import Exam, Mark
from mmspec_torch.train.heads.lesson import Lesson, starts


@dataclass(frozen=True, slots=True)
class Stage:
    """One phase of a recipe."""

    name: str
    projector: bool = True
    """Whether the projector is trained."""
    llama: bool = True
    whole: bool = False
    """Whether every token of text-only conversations is learned, not those of answers alone."""
    share: float = 1.0
    """Of the budget."""

    @property
    def kept(self) -> Kept:
        """The conversations that it can learn from."""
        if self.whole:
            return "text"
        return "all" if self.llama else "images"


@dataclass(frozen=True)
class Training:
    """A student with its teacher."""

    student: Student
    supply: Supply
    method: Method
    stage: Stage

    def loss(self, batch: Batch, step: int) -> Tensor:
        """The mean loss over learned columns; held-out ones are taken as they are."""
        if self.stage.whole:
            return self._following(self._seats(batch))
        if self.method.loss.divergence == "ce":
            shown = self._shown(self.supply.teacher.features(batch.pixels))
            q = self._said(batch, shown)
            return divergence("ce", q, q, batch.targets[batch.learned]).mean()
        lesson, shown = self._read(batch)
        if torch.is_grad_enabled() and self._strays(step):
            lesson, shown = self._strayed(lesson, shown)
        p = truth(lesson, self.supply.teacher.output).log_p
        q = self._said(lesson, shown)
        return divergence(self.method.loss.divergence, p, q, lesson.targets[lesson.learned]).mean()

    def _strays(self, step: int) -> bool:
        return coin(self.method.seed, step, self.method.on_policy, "policy")

    def _read(self, batch: Batch) -> tuple[Lesson, list[Tensor]]:
        """A batch as the target reads it, and its images [P, W] as the student is shown them."""
        teacher = self.supply.teacher
        features = teacher.features(batch.pixels) if batch.pixels else []
        return teacher.lesson(batch, features), self._shown(features)

    def _shown(self, features: Sequence[TorchFeatures]) -> list[Tensor]:
        if not self.student.sees:
            return []
        # Clones, for what the tower computes in inference mode cannot be learned from.
        return [each.pooled(self.student.positions).rows.clone().float() for each in features]

    def _seats(self, columns: Columns) -> Seats:
        reading = self.supply.teacher.reading
        blank = reading.image_id if self.student.sees else reading.tokenizer.newline_id
        return seats(columns, self.student.positions, blank)

    def _said(self, columns: Columns, shown: Sequence[Tensor]) -> Tensor:
        """Log-probabilities [n, V] after learned columns."""
        seated = self._seats(columns)
        states = self.student(seated, shown).flatten(0, 1)
        return self.student.said(states[seated.learned])

    def _following(self, seated: Seats) -> Tensor:
        """The mean cross-entropy of every token but the first."""
        states = self.student(seated, ()).flatten(0, 1)
        q = self.student.said(states[seated.following])
        return divergence("ce", q, q, seated.ids.flatten()[seated.following + 1]).mean()

    @torch.no_grad()
    def _strayed(self, lesson: Lesson, shown: list[Tensor]) -> tuple[Lesson, list[Tensor]]:
        """Cut every answer somewhere, let the student go on, and have the target read that."""
        columns = cuts(lesson).flatten().tolist()
        teacher, made = self.supply.teacher, lesson
        drafted = lesson.ids.new_zeros(len(columns), 0)
        for _ in range(self.method.gamma):
            made = extended(lesson, columns, drafted, teacher)
            left = _left(shown, lesson.images, made.images)
            states = self.student(seated := self._seats(made), left).flatten(0, 1)
            last = seated.learned[made.learned.sum(dim=1).cumsum(0) - 1]
            drafted = torch.cat((drafted, self.student.said(states[last]).argmax(-1)[:, None]), 1)
        return continued(lesson, columns, drafted, teacher), left

    def look(self) -> Mark:
        """Judge the student on all held-out samples, in float32."""
        return self.score().mark()

    @torch.no_grad()
    def score(self) -> Score:
        """Count what a greedy target would keep of the student's chains."""
        score, output = Score(), self.supply.teacher.output
        with torch.autocast(output.device.type, enabled=False):
            for batch in self.supply.held_out.once():
                lesson, shown = self._read(self.supply.machine.placed(batch))
                known, begun = truth(lesson, output), starts(lesson, self.method.gamma)
                right = self._said(lesson, shown).argmax(-1) == known.log_p.argmax(-1)
                rows = [known.row.gather(1, begun.after(d)) for d in range(begun.depth)]
                score.add(right[torch.stack(rows).clamp(min=0)], begun)
        return score

    def require(self) -> None:
        """Raise UsageError where there is nothing to learn from."""
        if self.stage.kept == "all":
            self.supply.require(self.method.schedule)
        else:
            self.supply.lessons(self.stage.kept).records()

    def phase(self, name: str) -> loop.Phase[Batch]:
        """What the training loop is given."""
        method, stage, student = self.method, self.stage, self.student
        share = SCHEDULES[method.schedule] if stage.kept == "all" else None

        def pick(step: int, progress: float) -> int:
            return int(share is not None and coin(method.seed, step, share(progress)))

        parts: list[tuple[nn.Module, float]] = [(student.llama, method.rate * stage.llama)]
        if student.projector is not None:
            parts.append((student.projector, method.rate * stage.projector))
        return loop.Phase(
            name,
            student,
            parts,
            self.loss,
            self.supply.kinds() if share else [self.supply.lessons(stage.kept)],
            self.supply.held_out,
            pick,
            None if stage.whole else Exam(self.look, method.patience, method.every),
        )


def _left(
    shown: Sequence[Tensor],
    before: Sequence[Sequence[object]],
    after: Sequence[Sequence[object]],
) -> list[Tensor]:
    """Of the images of every sequence, in order, those that are left of it: its first."""
    kept, images = [], iter(shown)
    for had, has in zip(before, after, strict=True):
        some = [next(images) for _ in had] if shown else []
        kept += some[: len(has)]
    return kept
