"""The stages of training a pair, each from what the ones before left in the run's directory.

tokenizer → tower → projector → target → draft. A stage whose result is there is not run again;
one that was interrupted continues from its checkpoint.
"""

import shutil
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer
from torch import nn
from transformers import LlavaForConditionalGeneration

from mmspec import errors
from mmspec.bench import world
from mmspec_torch.train import build, conversation, data, export, loop, tokenizer
from mmspec_torch.train.log import Log
from mmspec_torch.train.recipe import DRAFT_SHARES, TASK_SHARES, Rates, Recipe, Text, shares_of
from mmspec_torch.train.tower import Reader

STAGES = ("tokenizer", "tower", "projector", "target", "draft")
EXPORTED = ("target", "draft")
TOKENIZER_SAMPLES = 20_000


@dataclass(frozen=True)
class Run:
    """A training run: its directory, recipe, seed and machine.

    Stage S leaves S.safetensors there, float32; `checkpoint` holds the finished models.
    """

    directory: Path
    recipe: Recipe
    machine: loop.Machine
    log: Log
    seed: int = 0
    sampler: data.Sampler = world.sample
    labeller: data.Labeller = world.labelled
    tasks: tuple[str, ...] = world.TASKS

    def result(self, stage: str) -> Path:
        """Return the file that a finished stage leaves."""
        return result(self.directory, stage)

    def checkpoint(self, name: str) -> Path:
        """Return the directory of a finished model, "target" or "draft"."""
        return checkpoint(self.directory, name)

    @property
    def tokenizer(self) -> Tokenizer:
        """The tokenizer that the first stage left."""
        return Tokenizer.from_file(str(self.result("tokenizer")))

    def conversations(self, split: str, *, draft: bool = False) -> data.Conversations:
        """Return the source of the target's samples, or of the draft's."""
        return data.Conversations(
            self.recipe,
            self.result("tokenizer"),
            self.sampler,
            shares_of(self.tasks, DRAFT_SHARES if draft else TASK_SHARES),
            self.seed,
            split,
            self.recipe.draft_images if draft else None,
            self.recipe.draft_pooled if draft else 0.0,
        )

    def train(self, phase: loop.Phase[Any], budget: loop.Budget) -> None:
        """Train a phase and keep its tensors as the stage's result."""
        state = self.directory / f"{phase.name}.checkpoint"
        loop.run(phase, budget, self.machine, state, self.log)
        self.keep(phase.name, phase.module)
        state.unlink()

    def export(self, name: str, model: LlavaForConditionalGeneration) -> None:
        """Write a finished model's checkpoint, at once or not at all; the model becomes float16."""
        partial = self.directory / "models" / f"{name}.partial"
        shutil.rmtree(partial, ignore_errors=True)
        export.save(model, self.tokenizer, self.recipe.tower, partial)
        partial.replace(self.checkpoint(name))

    def keep(self, stage: str, module: nn.Module) -> None:
        """Write a stage's result, at once or not at all."""
        shared = {"lm_head.weight"}
        tensors = {
            k: v.cpu().contiguous() for k, v in module.state_dict().items() if k not in shared
        }
        partial = self.result(stage).with_suffix(".partial")
        save_file(tensors, partial)
        partial.replace(self.result(stage))


def result(directory: Path, stage: str) -> Path:
    """Return the file that a finished stage leaves in a run's directory."""
    return directory / ("tokenizer.json" if stage == "tokenizer" else f"{stage}.safetensors")


def checkpoint(directory: Path, name: str) -> Path:
    """Return the directory of a finished model, "target" or "draft"."""
    return directory / "models" / name


def is_done(directory: Path, stage: str) -> bool:
    """Whether all that a stage leaves is there."""
    exported = stage not in EXPORTED or checkpoint(directory, stage).exists()
    return exported and result(directory, stage).exists()


def check(directory: Path, chosen: Collection[str]) -> None:
    """Raise UsageError for a chosen stage that lacks what the one before it leaves."""
    for before, stage in pairwise(STAGES):
        lacking = before not in chosen and not is_done(directory, before)
        if stage in chosen and lacking and not is_done(directory, stage):
            raise errors.UsageError(
                f"the stage {stage} starts from the {before}, which {directory} has not: "
                f"give --stage {before} too"
            )


def run(run: Run, stages: tuple[str, ...], budgets: Mapping[str, loop.Budget]) -> None:
    """Run the named stages in order, leaving out those whose result is there."""
    run.directory.mkdir(parents=True, exist_ok=True)
    for stage in stages:
        if not is_done(run.directory, stage):
            RUNNERS[stage](run, budgets.get(stage, loop.Budget(steps=0)))


def train_tokenizer(run: Run, _budget: loop.Budget) -> None:
    """Train the tokenizer on the world's sentences."""
    count = TOKENIZER_SAMPLES // len(run.tasks)
    texts = (
        text
        for task in run.tasks
        for number in range(count)
        for text in conversation.texts(run.sampler(task, number, split="train", size=48))
    )
    trained = tokenizer.train(texts, run.recipe.vocabulary)
    trained.save(str(run.result("tokenizer")))


def train_tower(run: Run, budget: loop.Budget) -> None:
    """Train the tower on per-cell labels; its heads are kept beside it."""
    reader = _reader(run)
    run.machine.speed_up(reader.tower.encoder.layers)
    phase = loop.Phase(
        "tower",
        reader,
        [(reader, run.recipe.tower_rate)],
        lambda batch, _: reader.loss(batch),
        [data.Labelled(run.recipe, run.labeller, run.seed)],
        data.Labelled(run.recipe, run.labeller, run.seed, "held-out"),
    )
    run.train(phase, budget)


def train_projector(run: Run, budget: loop.Budget) -> None:
    """Train the projector alone on the pre-trained tower and an untrained language model."""
    model = _llava(run, run.recipe.target)
    reader = _reader(run)
    reader.load_state_dict(load_file(run.result("tower")))
    model.model.vision_tower.load_state_dict(reader.tower.state_dict())
    _train_llava(run, "projector", model, run.recipe.projector_rates, budget)


def train_target(run: Run, budget: loop.Budget) -> None:
    """Train the whole target; then round its tensors, the tower's for good, and export it."""
    model = _llava(run, run.recipe.target)
    _restore(model, run.result("projector"))
    _train_llava(run, "target", model, run.recipe.target_rates, budget)
    export.round_to_half(model)
    run.export("target", model)


def train_draft(run: Run, budget: loop.Budget) -> None:
    """Train the draft on the target's final tower, bit for bit, and export it."""
    model = _llava(run, run.recipe.draft)
    target = LlavaForConditionalGeneration.from_pretrained(run.checkpoint("target"))
    model.model.vision_tower.load_state_dict(target.model.vision_tower.float().state_dict())
    _train_llava(run, "draft", model, run.recipe.draft_rates, budget)
    run.export("draft", model)
    export.check_size(run.checkpoint("target"), run.checkpoint("draft"))


RUNNERS = {
    "tokenizer": train_tokenizer,
    "tower": train_tower,
    "projector": train_projector,
    "target": train_target,
    "draft": train_draft,
}


def _train_llava(
    run: Run,
    stage: str,
    model: LlavaForConditionalGeneration,
    rates: Rates,
    budget: loop.Budget,
) -> None:
    if run.result(stage).exists():  # trained before, and only the export was cut off
        _restore(model, run.result(stage))
        return
    inner = model.model
    run.machine.speed_up(inner.vision_tower.encoder.layers, inner.language_model.layers)
    phase = loop.Phase(
        stage,
        model,
        build.parts(model, rates),
        lambda batch, _: build.learned_loss(model, batch),
        [run.conversations("train", draft=stage == "draft")],
        run.conversations("held-out", draft=stage == "draft"),
    )
    run.train(phase, budget)


def _reader(run: Run) -> Reader:
    tower = _llava(run, run.recipe.target).model.vision_tower
    return Reader(tower, run.recipe.tower.hidden, world.LABELS)


def _llava(run: Run, text: Text) -> LlavaForConditionalGeneration:
    return build.llava(run.recipe, text, run.tokenizer, run.seed)


def _restore(model: LlavaForConditionalGeneration, file: Path) -> None:
    tensors = load_file(file)
    embeddings = "model.language_model.embed_tokens.weight"
    model.load_state_dict(tensors | {"lm_head.weight": tensors[embeddings]})
