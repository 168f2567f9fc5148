"""How weights are updated in training, and the recipes of papers by name.

Imports no framework, so that `mmspec train --help` is fast.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal


@dataclass(frozen=True, slots=True)
class UpdateRule:
    """Optimizer, learning-rate schedule and size of a step."""

    muon: bool = False
    """True if Muon trains matrices between hidden vectors; AdamW trains everything else."""
    betas: tuple[float, float] = (0.9, 0.999)
    weight_decay: float = 0.0
    clip: float = 1.0
    """Largest norm, or largest value, of the gradients."""
    clip_by: Literal["group", "norm", "value"] = "norm"
    """What is clipped: the norm of each parameter group, of all gradients, or single values."""
    warm_up_steps: int = 0
    warm_up_share: float = 0.0
    """Share of the run over which the learning rate rises; 0: `warm_up_steps` says it."""
    decay: Literal["cosine", "linear"] = "cosine"
    final_share: float = 0.0
    """Learning rate at the end of a run, as a share of its peak."""
    batch: int = 1
    """Least number of samples of a step, accumulated over batches."""

    def rate_share(self, step: int, progress: float) -> float:
        """Return the learning rate as a share of its peak: linear warm-up, then decay."""
        warm_up = self.warm_up_share
        rising = progress / warm_up if warm_up else (step + 1) / max(1, self.warm_up_steps)
        left = 1 - max(0.0, min(1.0, progress) - warm_up) / (1 - warm_up)
        falling = left if self.decay == "linear" else 0.5 * (1 - math.cos(math.pi * left))
        return min(1.0, rising) * (self.final_share + (1 - self.final_share) * falling)


OURS = UpdateRule(
    muon=True,
    betas=(0.9, 0.98),
    weight_decay=0.02,
    clip_by="group",
    warm_up_steps=100,
    final_share=0.02,
)
"""The rule of this project, for runs of minutes on two cores; one batch is a step."""


@dataclass(frozen=True, slots=True)
class Recipe:
    """The rules of a training and the options that it sets where none are given."""

    source: str
    """Where the figures come from."""
    rule: UpdateRule
    epochs: float = 0.0
    """Length of each stage if no budget is given; 0: the default minutes."""
    projector_rule: UpdateRule | None = None
    """Rule of the projector's stage; None: `rule`."""
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def trains_heads(self) -> bool:
        """True for a recipe of heads, False for one of drafts."""
        return self.projector_rule is None


_EAGLE = {
    "answers": "dataset",
    "loss": "kl",
    "token_weight": 0.1,
    "feature_weight": 1.0,
    "rollout": 1,
    "noise": 0.2,
}
_LLAVA = Recipe(
    "LLaVA-1.5's scripts: AdamW, cosine, warm-up 3 %, one epoch; projector 1e-3 with 256 "
    "conversations a step, then language model and projector 2e-5 with 128",
    UpdateRule(warm_up_share=0.03, batch=128),
    epochs=1.0,
    projector_rule=UpdateRule(warm_up_share=0.03, batch=256),
    options={
        "answers": "dataset",
        "plain_first": True,
        "loss": "ce",
        "rate": 2e-5,
        "projector_rate": 1e-3,
    },
)
PAPERS = {
    "llava": _LLAVA,
    "ibed": _LLAVA,
    "msd": Recipe(
        "MSD's code: AdamW 5e-5, linear decay, warm-up 2,000 steps, 4 conversations a step, 40 "
        "epochs of which 20 are text",
        UpdateRule(betas=(0.9, 0.95), clip=0.5, warm_up_steps=2000, decay="linear", batch=4),
        epochs=40.0,
        options=_EAGLE | {"rate": 5e-5, "schedule": "msd"},
    ),
    "eagle": Recipe(
        "EAGLE's code: AdamW 3e-5, linear decay, warm-up 2,000 steps, 4 conversations a step, 20 "
        "epochs",
        UpdateRule(
            betas=(0.9, 0.95),
            clip=0.5,
            clip_by="value",
            warm_up_steps=2000,
            decay="linear",
            batch=4,
        ),
        epochs=20.0,
        options=_EAGLE | {"rate": 3e-5, "schedule": "mixed"},
    ),
    "eagle3": Recipe(
        "EAGLE-3's paper and code: AdamW 5e-5, linear decay, 2 conversations a step, 7 tokens of "
        "training-time test weighted 0.8 each, on the target's own answers; epochs and warm-up are "
        "ours",
        UpdateRule(betas=(0.9, 0.95), clip=0.5, warm_up_steps=2000, decay="linear", batch=2),
        epochs=10.0,
        options={
            "answers": "target",
            "loss": "kl",
            "rate": 5e-5,
            "rollout": 7,
            "decay": 0.8,
            "schedule": "mixed",
        },
    ),
}
"""Recipes of papers by name. IbED trains its drafts by LLaVA's recipe."""

DEFAULT = "mini"
RECIPES = {DEFAULT: Recipe("this project", OURS)} | PAPERS
