"""Early stopping: evaluations during training and the best value so far."""

from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Evaluation:
    """A result on held-out samples. A higher `value` is better; `details` go to the log."""

    value: float
    details: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class EarlyStopping:
    """When and how to evaluate, and when to stop training."""

    evaluate: Callable[[], Evaluation]
    patience: int = 0
    """Number of evaluations without a new best value that end training; 0 never does."""
    every: int | None = None
    """Number of steps between evaluations; None evaluates with every checkpoint."""


@dataclass
class BestSoFar:
    """The best value of all evaluations, and the number of evaluations since."""

    value: float = float("-inf")
    evaluations_since: int = 0

    def update(self, evaluation: Evaluation) -> bool:
        """Take an evaluation into account; returns whether it is the best so far."""
        if evaluation.value > self.value:
            self.value, self.evaluations_since = evaluation.value, 0
            return True
        self.evaluations_since += 1
        return False

    def is_final(self, patience: int) -> bool:
        """Return whether the last `patience` evaluations brought no new best value."""
        return bool(patience) and self.evaluations_since >= patience
