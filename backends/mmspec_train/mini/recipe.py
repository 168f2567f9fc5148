"""Sizes and hyperparameters of a trainable pair."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from mmspec_train.data.corpus import SHARES, TASK_SHARES
from mmspec_train.settings import LlamaShape


@dataclass(frozen=True, slots=True)
class TowerSizes:
    """A CLIP vision transformer over square images of `image` pixels a side."""

    hidden: int
    layers: int
    heads: int
    ffn: int
    image: int = 144
    patch: int = 12

    @property
    def grid(self) -> int:
        """Number of patches along one side of the image."""
        return self.image // self.patch

    @property
    def patches(self) -> int:
        """Number of visual tokens of one image."""
        return self.grid**2


@dataclass(frozen=True, slots=True)
class Rates:
    """Peak learning rates of a LLaVA's parts; 0 freezes a part."""

    tower: float
    projector: float
    text: float


RATES = {
    "projector": Rates(tower=0.0, projector=2e-3, text=0.0),
    "target": Rates(tower=2e-4, projector=1e-3, text=1e-3),
    "draft": Rates(tower=0.0, projector=2e-3, text=2e-3),
}
"""Peak learning rates by stage."""
TARGET_STAGES = {
    "words": (0.05, Rates(tower=0.0, projector=2e-3, text=0.0)),
    "projector": (0.15, Rates(tower=0.0, projector=1e-3, text=0.0)),
    "language": (0.8, Rates(tower=0.0, projector=5e-4, text=2e-4)),
}
"""Share of the budget and peak learning rates of each stage of a target joined from parts."""
TARGET_SHARES = {task: share for task, share in SHARES.items() if task != "told"}
"""Task shares for such a target, which knows language: all tasks with pictures but the drills."""
DRAFT_SHARES = TASK_SHARES | {"pororo": 12, "vist": 12, "video": 10}
"""Task shares for the draft: more stories, whose images it does not read: newlines replace them."""
CLIP_SHARES: dict[str, float] = {"clip4": 4, "clip8": 4, "clip16": 1}
"""Task shares for a target of moving scenes; about half of the columns are of eight frames."""


@dataclass(frozen=True, slots=True)
class Recipe:
    """Sizes and training settings of a target and a draft with the same tower and tokenizer."""

    tower: TowerSizes
    target: LlamaShape
    draft: LlamaShape
    vocabulary: int = 1024
    start: str = ""
    """Model that the target continues, in place of the stages before it; empty: none."""
    draft_images: int = 2
    draft_pooled: float = 0.25
    """Share of the draft's samples whose images are pooled to a quarter (the view P)."""
    positions_per_batch: int = 8192
    images_per_batch: int = 48
    tower_rate: float = 1e-3
    rates: Mapping[str, Rates] = field(default_factory=lambda: RATES)
    shares: Mapping[str, float] = field(default_factory=lambda: TASK_SHARES)
    """Relative share of each task in the target's samples."""
    fact_weight: float = 2.0
    """Loss weight of tokens that state a fact asked for; they teach the model to see."""


MINI = Recipe(
    tower=TowerSizes(hidden=192, layers=4, heads=3, ffn=768),
    target=LlamaShape(width=256, layers=11, heads=4, ffn=768, positions=2048),
    draft=LlamaShape(width=128, layers=2, heads=2, ffn=384, positions=512),
)
TEST = Recipe(
    tower=TowerSizes(hidden=32, layers=2, heads=2, ffn=64, image=48, patch=12),
    target=LlamaShape(width=32, layers=2, heads=2, ffn=64, positions=1024),
    draft=LlamaShape(width=16, layers=1, heads=2, ffn=32, positions=512),
    vocabulary=384,
    positions_per_batch=512,
    images_per_batch=4,
)
CLIPS = replace(
    MINI,
    start="mini",
    target=replace(MINI.target, positions=4096),
    rates={"target": Rates(tower=0.0, projector=1e-3, text=1e-3)},
    shares=CLIP_SHARES,
    positions_per_batch=4096,
)
RECIPES = {"mini": MINI, "clips": CLIPS, "test": TEST}
