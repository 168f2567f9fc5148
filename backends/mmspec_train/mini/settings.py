"""The options of training targets: the bundled pair, and a Llama that learns to see."""

from dataclasses import MISSING, dataclass
from pathlib import Path

from mmspec.ground.settings import option
from mmspec_train.settings import PlaceSettings

STAGES = ("tokenizer", "tower", "projector", "target", "draft")
"""Names of the stages of training the bundled pair, in order."""
STAGE_MINUTES = {"tower": 15.0, "projector": 1.0, "target": 110.0, "draft": 8.0}
"""Default minutes of each stage, for two CPU cores."""


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


@dataclass(frozen=True, kw_only=True)
class TargetSettings(PlaceSettings):
    """Options of training a target from a language model and a vision tower."""

    language: str = option(MISSING, "Llama that learns to see: directory, card or hub id.")
    tower: str = option("mini", "LLaVA whose vision tower it gets: directory, card or hub id.")
    answers_dir: Path | None = option(
        None,
        "Directory of the Llama's own answers to text, from `train distill` with --answers-dir: "
        "they keep its language.",
        exists=True,
    )
    task: tuple[str, ...] = option(
        (),
        "Task of the synthetic world to train on, in place of its mix; may be given several times.",
    )
    batch: int = option(1024, "Token positions of a batch, without padding.", least=1)
    seed: int = option(0, "Seed of the data's order and of the projector's initial weights.")
