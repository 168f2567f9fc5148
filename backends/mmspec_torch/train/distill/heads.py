"""Training a head: what it is, what it learns from, how it is judged, where it goes."""

import json
import shutil
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from mmspec import errors
from mmspec.heads.config import HeadConfig
from mmspec_torch.train import loop
from mmspec_torch.train.claim import claim
from mmspec_torch.train.distill.acceptance import Score, judged
from mmspec_torch.train.distill.batch import Batch
from mmspec_torch.train.distill.curriculum import SCHEDULES, coin
from mmspec_torch.train.distill.loss import Loss, head_loss, noisy
from mmspec_torch.train.distill.policy import strayed
from mmspec_torch.train.distill.supply import Supply
from mmspec_torch.train.exam import Exam, Mark
from mmspec_torch.train.heads import build
from mmspec_torch.train.heads.lesson import Lesson, starts
from mmspec_torch.train.log import Log

REPORT = "training.json"
"""Says how a finished head came about."""


@dataclass(frozen=True, slots=True)
class Method:
    """How a head is trained."""

    loss: Loss = field(default_factory=Loss)
    depth: int = 5
    """Guesses trained from every start: 1 is plain teacher forcing, more feed the head its own."""
    noise: float = 0.0
    """Width of EAGLE's noise on hidden states, at 512 columns."""
    rate: float = 2e-3
    schedule: str = "mixed"
    """One of curriculum.SCHEDULES."""
    on_policy: float = 0.0
    """The share of steps that continue the head's own drafts."""
    gamma: int = 5
    """Guesses per round when judged."""
    patience: int = 0
    every: int | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        """Refuse what cannot be."""
        if self.schedule not in SCHEDULES:
            raise errors.choice("schedule", self.schedule, SCHEDULES)
        if self.on_policy and self.loss.divergence == "ce":
            raise errors.UsageError(
                "--loss ce has no answer to learn where the head drafts on: use kl with --on-policy"
            )


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
        score = self.score()
        numbered = enumerate(score.agreement, start=1)
        agreement = {f"agreement {depth}": share for depth, share in numbered}
        return Mark(
            score.tokens_per_round, {"tokens per round": score.tokens_per_round} | agreement
        )

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
        kinds = self.supply.kinds(share is not None)

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
    state = begun(out, {"head": config.described(), "method": asdict(method), **supply.about})
    head = build.untrained(config, method.seed)
    training = Training(head, supply, method)
    loop.run(training.phase(out.name), budget, supply.machine, state, log)
    score = training.score()
    if supply.machine.team.rank == 0:
        build.save(head, out)
        _describe(out, supply, method, budget, score)
        shutil.rmtree(state.parent)
    return score


def begun(out: Path, about: dict[str, Any]) -> Path:
    """Return the file for the state of a run in `out`, claimed for what is to be trained there."""
    if (out / REPORT).exists():
        raise errors.UsageError(f"{out} holds what was trained before: give another --out")
    state = out / "training" / "state.checkpoint"
    claim(state.with_name("about.json"), about, "give another --out, or the options of before")
    return state


def _describe(out: Path, supply: Supply, method: Method, budget: loop.Budget, score: Score) -> None:
    """Write how the head came about, for its card."""
    said: Mapping[str, Any] = {
        "method": asdict(method),
        "budget": asdict(budget),
        "data": supply.about,
        "held_out": {
            "tokens_per_round": score.tokens_per_round,
            "agreement": score.agreement,
            "acceptance": score.acceptance,
        },
    }
    text = json.dumps(said, indent=2) + "\n"
    (out / REPORT).write_text(text, encoding="utf-8")
