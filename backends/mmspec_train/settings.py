"""The options of training. The command line is generated from the fields of these classes.

Imports no framework, so that `mmspec train --help` is fast.
"""

from dataclasses import MISSING, asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from mmspec.ground import errors
from mmspec_train.recipes import DEFAULT, RECIPES, UpdateRule

DIVERGENCES = ("kl", "reverse-kl", "tv", "ce")
SCHEDULE_NAMES = ("mixed", "msd", "text", "images")
HEADS = ("eagle", "eagle3", "msd", "medusa", "hydra", "flash")
BASELINES = ("pretrained", "finetuned", "llava", "language")
"""The four drafts of Gagrani et al. 2024 (2404.08856)."""
STAGES = ("tokenizer", "tower", "projector", "target", "draft")
"""Names of the stages of training the bundled pair, in order."""
STAGE_MINUTES = {"tower": 15.0, "projector": 1.0, "target": 110.0, "draft": 8.0}
"""Default minutes of each stage, for two CPU cores."""
DEFAULT_MINUTES = 20.0
"""Default minutes of training a head or a draft."""


def option(default: Any, help_: str, **metadata: Any) -> Any:
    """Declare a settings field as an option with a default, or MISSING for a required one.

    metadata: `choices` for a string; `least`, `above`, `most` for a number; `is_file` for a path;
    `kinds`, the values of `train distill --kind` that use the option, if not all.
    """
    return field(default=default, metadata={"help": help_, **metadata})


def as_options(settings: "Settings") -> dict[str, Any]:
    """Return the settings as a dict from option name (`--batch`) to value."""
    values = asdict(settings).items()
    return {f"--{name.replace('_', '-')}": value for name, value in values}


@dataclass(frozen=True)
class Settings:
    """Base of the option classes: checks every field that has a list of choices."""

    def __post_init__(self) -> None:
        for declared in fields(self):
            allowed, value = declared.metadata.get("choices"), getattr(self, declared.name)
            if allowed and value is not None and value not in allowed:
                raise errors.choice(declared.name, value, allowed)


@dataclass(frozen=True)
class PlaceSettings(Settings):
    """The output directory, the device and the CPU threads."""

    out: Path = option(MISSING, "Directory for all results. An interrupted run in it is continued.")
    device: str = option("auto", "Device to train on.", choices=("auto", "cpu", "cuda", "mps"))
    threads: int = option(0, "CPU threads of PyTorch; 0: as many as PyTorch chooses.", least=0)


@dataclass(frozen=True)
class RunSettings(PlaceSettings):
    """Machine options of training a head or a draft."""

    dtype: str = option(
        "auto", "Data type of the target; auto: float32 on a CPU, its own elsewhere."
    )
    workers: int = option(
        1, "Background processes that make batches; 0: the main one does.", least=0, most=1
    )
    accelerate: bool = option(False, "Be one of `torchrun`'s or `accelerate launch`'s processes.")


@dataclass(frozen=True)
class Budget(Settings):
    """The length of a training run: in steps, which is reproducible, or in minutes."""

    minutes: float | None = option(
        None, f"Minutes to train. Default: {DEFAULT_MINUTES:g}, unless --steps is given.", above=0
    )
    steps: int | None = option(
        None,
        "Steps to train, in place of --minutes; on one machine they repeat exactly.",
        least=1,
    )

    @property
    def is_given(self) -> bool:
        """True if the length is given, not the default."""
        return self.minutes is not None or self.steps is not None

    @property
    def steps_of_evaluation(self) -> int | None:
        """Steps between evaluations, a tenth of the budget; None for a budget in minutes."""
        return self.steps and -(-self.steps // 10)

    def progress(self, step: int, seconds: float) -> float:
        """Return the share of the budget that is spent; 1 or more ends the phase."""
        if self.steps is not None:
            return step / self.steps if self.steps else 1.0
        return seconds / (60 * (self.minutes or DEFAULT_MINUTES))

    def scaled(self, share: float) -> "Budget":
        """Return a budget of `share` times this one, at least one step."""
        if self.steps is not None:
            return Budget(steps=max(1, round(self.steps * share)))
        return Budget(minutes=(self.minutes or DEFAULT_MINUTES) * share)


@dataclass(frozen=True)
class MethodSettings(Settings):
    """Recipe, loss, learning rate, schedule and evaluation of training."""

    recipe: str = option(
        DEFAULT,
        "Optimizer, rates, schedule, samples of a step, epochs and losses of a paper; options that "
        "are given replace them. llava and ibed are for drafts, msd, eagle and eagle3 for heads.",
        choices=tuple(RECIPES),
    )
    loss: str = option(
        "kl",
        "Loss of the draft's distribution q against the target's p: KL(p, q), KL(q, p), total "
        "variation, or cross-entropy of the answer's tokens.",
        choices=DIVERGENCES,
    )
    rate: float = option(2e-3, "Peak learning rate.", above=0)
    projector_rate: float | None = option(
        None,
        "Peak learning rate of the stage of a draft's projector alone. Default: --rate.",
        above=0,
        kinds=("draft",),
    )
    final_rate: float | None = option(
        None,
        "Learning rate at the end, as a share of its peak; 1: no decay. Default: the recipe's.",
        least=0,
        most=1,
    )
    step_samples: int | None = option(
        None,
        "Least conversations of a step, accumulated over batches. With --batch 1 each of them is "
        "drawn by --schedule alone. Default: the recipe's.",
        least=1,
    )
    on_policy: float = option(
        0.0,
        "Share of batches in which the draft continues each answer from a random position and is "
        "trained on the target's distribution for its own text.",
        least=0,
        most=1,
    )
    schedule: str | None = option(
        None,
        "Conversations to train on: mixed, all of them; text or images, only those without or with "
        "images; msd, first without, then more and more with images. Default: msd for --kind msd, "
        "else mixed.",
        choices=SCHEDULE_NAMES,
    )
    gamma: int = option(5, "Draft length in evaluations.", least=1)
    patience: int = option(
        0, "Evaluations without a new best result that end the training; 0: never.", least=0
    )
    every: int | None = option(
        None,
        "Steps between evaluations on held-out conversations. Default: a tenth of --steps, or what "
        "a minute has.",
        least=1,
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.on_policy and self.loss == "ce":
            raise errors.UsageError(
                "--loss ce has no answer to learn where the draft goes on: use kl with --on-policy"
            )

    def update_rule(self, rule: UpdateRule) -> UpdateRule:
        """Return a rule of the recipe, with the options that replace its figures."""
        final = rule.final_share if self.final_rate is None else self.final_rate
        return replace(rule, final_share=final, batch=self.step_samples or rule.batch)


@dataclass(frozen=True)
class HeadMethodSettings(MethodSettings):
    """Options of training a head: loss weights, depth of the drafts, noise."""

    token_weight: float = option(1.0, "Weight of --loss in the total.", least=0, kinds=HEADS)
    feature_weight: float = option(
        0.0,
        "Weight in the total of the smooth L1 distance between the head's features and the "
        "target's hidden states.",
        least=0,
        kinds=tuple(kind for kind in HEADS if kind != "eagle3"),
    )
    decay: float = option(
        0.8,
        "Loss weight of each drafted token relative to the one before it.",
        least=0,
        most=1,
        kinds=HEADS,
    )
    rollout: int = option(
        5, "Drafted tokens to train from each position of an answer.", least=1, kinds=HEADS
    )
    noise: float = option(
        0.0,
        "Width of the uniform noise added to the target's hidden states, for a conversation of 512 "
        "tokens; EAGLE uses 0.2.",
        least=0,
        kinds=tuple(kind for kind in HEADS if kind != "eagle3"),
    )


@dataclass(frozen=True)
class HeadShape(Settings):
    """Sizes of a head that its target does not determine."""

    slots: int = option(
        5,
        "Tokens that a medusa, hydra or flash head drafts.",
        least=1,
        kinds=("medusa", "hydra", "flash"),
    )
    queries: int | None = option(
        None,
        "Vectors into which a flash head packs each image; 0: it reads all positions. Default: a "
        "ninth of the positions.",
        least=0,
        kinds=("flash",),
    )
    vision: str = option(
        "none",
        "How a medusa or hydra head reads image embeddings: not at all, as their mean, or by "
        "attention.",
        choices=("none", "mean", "attention"),
        kinds=("medusa", "hydra"),
    )
    ffn: int | None = option(
        None,
        "MLP width of an eagle, eagle3, msd or flash head. Default: the target's.",
        least=1,
        kinds=("eagle", "eagle3", "msd", "flash"),
    )
    draft_vocabulary: int | None = option(
        None,
        "Tokens that an eagle3 head can draft: the commonest of the answers. Default: all.",
        least=1,
        kinds=("eagle3",),
    )
    norms: str = option(
        "3.1",
        "Norms of an eagle3 head: those of EAGLE-3, or also 3.1's of each captured layer and of "
        "what is fed back.",
        choices=("3", "3.1"),
        kinds=("eagle3",),
    )
    image_embeddings: bool = option(
        False,
        "Feed an eagle3 head the images' features; other engines do not, so it cannot be exported.",
        kinds=("eagle3",),
    )


@dataclass(frozen=True)
class LlamaShape(Settings):
    """Sizes of the Llama in a draft."""

    layers: int = option(4, "Layers of the Llama.", least=1)
    width: int = option(1024, "Hidden width of the Llama: an even multiple of --heads.", least=2)
    heads: int = option(8, "Attention heads of the Llama.", least=1)
    ffn: int = option(2816, "MLP width of the Llama.", least=1)
    positions: int = option(2048, "Most positions that the Llama can read.", least=16)


@dataclass(frozen=True)
class DraftSettings(Settings):
    """Options for how a draft reads images."""

    pool: int | None = option(
        None,
        "Positions to which each image is pooled for the draft. Default: as many as in the target.",
        least=1,
        kinds=("draft",),
    )


@dataclass(frozen=True)
class MiniSettings(PlaceSettings):
    """Options of training the bundled pair."""

    recipe: str = option(
        "mini",
        "Sizes and learning rates: those of the bundled pair, or of a tiny one for tests; with "
        "clips the stage target alone continues mini on moving scenes of up to 16 frames.",
        choices=("mini", "clips", "test"),
    )
    compile: bool = option(True, "Compile the layers with torch.compile.")
    seed: int = option(0, "Seed of the data and of the initial weights.")
