"""Sizes and hyperparameters of a trainable pair."""

from collections.abc import Mapping
from dataclasses import dataclass

from mmspec import errors


@dataclass(frozen=True, slots=True)
class Tower:
    """A CLIP vision transformer over square images of `image` pixels a side."""

    hidden: int
    layers: int
    heads: int
    ffn: int
    image: int = 144
    patch: int = 12

    @property
    def grid(self) -> int:
        """Patches along one side."""
        return self.image // self.patch

    @property
    def patches(self) -> int:
        """Visual tokens of one image."""
        return self.grid**2


@dataclass(frozen=True, slots=True)
class Text:
    """A Llama with tied embeddings and `positions` position embeddings."""

    hidden: int
    layers: int
    heads: int
    ffn: int
    positions: int


@dataclass(frozen=True, slots=True)
class Rates:
    """Peak learning rates of a LLaVA's parts; zero freezes a part."""

    tower: float
    projector: float
    text: float


@dataclass(frozen=True, slots=True)
class Recipe:
    """A target, its draft on the same tower and tokenizer, and how both are trained."""

    tower: Tower
    target: Text
    draft: Text
    vocabulary: int = 1024
    draft_images: int = 2
    draft_pooled: float = 0.25
    """The share of the draft's samples whose images are pooled to a quarter (the view P)."""
    positions_per_batch: int = 8192
    images_per_batch: int = 48
    tower_rate: float = 1e-3
    projector_rates: Rates = Rates(tower=0.0, projector=2e-3, text=0.0)
    target_rates: Rates = Rates(tower=2e-4, projector=1e-3, text=1e-3)
    draft_rates: Rates = Rates(tower=0.0, projector=2e-3, text=2e-3)
    # Tokens that state an asked fact count this many times: sight is learned from them.
    fact_weight: float = 2.0


MINI = Recipe(
    tower=Tower(hidden=192, layers=4, heads=3, ffn=768),
    target=Text(hidden=256, layers=11, heads=4, ffn=768, positions=2048),
    draft=Text(hidden=128, layers=2, heads=2, ffn=384, positions=512),
)
TEST = Recipe(
    tower=Tower(hidden=32, layers=2, heads=2, ffn=64, image=48, patch=12),
    target=Text(hidden=32, layers=2, heads=2, ffn=64, positions=1024),
    draft=Text(hidden=16, layers=1, heads=2, ffn=32, positions=512),
    vocabulary=384,
    positions_per_batch=512,
    images_per_batch=4,
)
RECIPES = {"mini": MINI, "test": TEST}

# Shares of samples, relative to each other.
TASK_SHARES: dict[str, float] = {
    "chat": 14,
    "general": 22,
    "conversation": 16,
    "detail": 2,
    "caption": 2,
    "hallucination": 5,
    "chart": 7,
    "text": 8,
    "reasoning": 16,
    "science": 6,
    "spot": 17,
    "edit": 18,
    "pororo": 1,
    "vist": 1,
    "video": 1,
    "swap": 1,
    "told": 35,
    "drill": 60,
}


# As text, stories cost a tenth of their positions: a draft that sees two images knows them so.
DRAFT_SHARES = TASK_SHARES | {"pororo": 12, "vist": 12, "video": 10}


def shares_of(tasks: tuple[str, ...], shares: Mapping[str, float]) -> dict[str, float]:
    """Return each task's share of the samples.

    Raises UsageError for a task that has no share.
    """
    for task in tasks:
        if task not in shares:
            raise errors.choice("task", task, shares)
    return {task: shares[task] for task in tasks}
