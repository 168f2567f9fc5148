"""Training a head: what it is, what it learns from, how it is judged, where it goes."""

from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from mmspec.heads.config import HeadConfig
from mmspec_torch.train import loop
from mmspec_torch.train.distill import report
from mmspec_torch.train.distill.acceptance import Score, judged
from mmspec_torch.train.distill.batch import Batch
from mmspec_torch.train.distill.curriculum import SCHEDULES, coin
from mmspec_torch.train.distill.loss import head_loss, noisy
from mmspec_torch.train.distill.method import Method
from mmspec_torch.train.distill.policy import strayed
from mmspec_torch.train.distill.report import begun, finish
from mmspec_torch.train.distill.supply import Supply
from mmspec_torch.train.exam import Exam, Mark
from mmspec_torch.train.heads import build
from mmspec_torch.train.heads.lesson import Lesson, starts
from mmspec_torch.train.log import Log


@dataclass(frozen=True)
class Training:
    """A head with its teacher."""

    head: build.Head
    supply: Supply
    method: Method

    @property
    def depth(self) -> int:
        """Guesses trained from every start."""
        return build.depth_of(self.head, self.method.depth)

    def loss(self, batch: Batch, step: int) -> Tensor:
        """The loss of a batch; held-out ones, without gradients, are taken as they are."""
        teacher, method = self.supply.teacher, self.method
        lesson = teacher.lesson(batch)
        learning = torch.is_grad_enabled()
        if learning and coin(method.seed, step, method.on_policy, "policy"):
            lesson = strayed(lesson, self.head, teacher, build.depth_of(self.head, method.gamma))
        begun = starts(lesson, self.depth)
        heard = lesson
        if learning and method.noise:
            heard = replace(lesson, states=noisy(lesson, method.noise))
        return head_loss(self.head(heard, begun), lesson, begun, teacher.output, method.loss)

    def look(self) -> Mark:
        """Judge the head on all held-out samples, in float32."""
        return self.score().mark()

    @torch.no_grad()
    def score(self) -> Score:
        """Count what a greedy target would keep of the head's chains."""
        score, teacher = Score(), self.supply.teacher
        depth = build.depth_of(self.head, self.method.gamma)
        with torch.autocast(teacher.output.device.type, enabled=False):
            for batch in self.supply.held_out.once():
                lesson: Lesson = teacher.lesson(self.supply.machine.placed(batch))
                begun = starts(lesson, depth)
                judged(score, self.head(lesson, begun), lesson, begun, teacher.output)
        return score

    def phase(self, name: str) -> loop.Phase[Batch]:
        """What the training loop is given."""
        method, share = self.method, SCHEDULES[self.method.schedule]
        kinds = self.supply.kinds() if share else [self.supply.lessons("all")]

        def pick(step: int, progress: float) -> int:
            return int(share is not None and coin(method.seed, step, share(progress)))

        return loop.Phase(
            name,
            self.head,
            [(self.head, method.rate)],
            self.loss,
            kinds,
            self.supply.held_out,
            pick,
            Exam(self.look, method.patience, method.every),
        )


def check(config: HeadConfig, supply: Supply, method: Method, out: Path) -> None:
    """Raise UsageError for what can be known to be wrong before anything is made."""
    report.check(out, {**_about(config, method), **supply.source})


def _about(config: HeadConfig, method: Method) -> dict[str, Any]:
    return {"head": config.described(), "method": asdict(method)}


def train(
    config: HeadConfig,
    supply: Supply,
    method: Method,
    budget: loop.Budget,
    out: Path,
    log: Log,
) -> Score:
    """Train a head and write it to `out`; what is under way is kept in `out`/training.

    A run that was interrupted continues. Raises UsageError where `out` holds a trained head, or
    one begun with other options, and MmspecError as `loop.run` does.
    """
    folder = begun(out, {**_about(config, method), **supply.about}, supply.machine.team)
    supply.require(method.schedule)
    head = build.untrained(config, method.seed)
    training = Training(head, supply, method)
    state = folder / "state.checkpoint"
    loop.run(training.phase(out.name), budget, supply.machine, state, log)
    score = training.score()
    if supply.machine.team.is_first():
        build.save(head, out)
        finish(out, supply, method, budget, score)
    return score
