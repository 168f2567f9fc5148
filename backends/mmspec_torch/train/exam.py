"""Looks at held-out samples during training: the best state is kept, and no progress ends it."""

from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Mark:
    """What a look found: `value` is better the higher; `details` are numbers for the log."""

    value: float
    details: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Exam:
    """When to look, how, and how many looks without progress end the training."""

    look: Callable[[], Mark]
    patience: int = 0
    """0 never ends it early."""
    every: int | None = None
    """Steps between looks; None looks whenever a checkpoint is written."""


@dataclass
class Standing:
    """The best look so far, and the looks since."""

    best: float = float("-inf")
    since: int = 0

    def note(self, mark: Mark) -> bool:
        """Take a look in; returns whether it is the best so far."""
        if mark.value > self.best:
            self.best, self.since = mark.value, 0
            return True
        self.since += 1
        return False

    def is_over(self, patience: int) -> bool:
        """Whether so many looks have shown no progress."""
        return bool(patience) and self.since >= patience
