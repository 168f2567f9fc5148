"""How something is trained: loss, rates, schedule, when it is judged."""

from dataclasses import dataclass, field

from mmspec import errors
from mmspec_torch.train.distill.curriculum import SCHEDULES
from mmspec_torch.train.distill.loss import Loss


@dataclass(frozen=True, slots=True)
class Method:
    """Choices for a head, most of which hold for a small model too."""

    loss: Loss = field(default_factory=Loss)
    depth: int = 5
    """Guesses of a head trained from every start: 1 is plain teacher forcing, more feed the head
    its own."""
    noise: float = 0.0
    """Width of EAGLE's noise on the hidden states that a head reads, at 512 columns."""
    rate: float = 2e-3
    schedule: str = "mixed"
    """One of curriculum.SCHEDULES."""
    on_policy: float = 0.0
    """The share of steps that continue the student's own drafts."""
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
                "--loss ce has no answer to learn where the draft goes on: use kl with --on-policy"
            )
