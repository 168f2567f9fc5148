"""The stages of training the bundled pair: tokenizer → tower → projector → target → draft.

Each stage reads the results of earlier ones from the run's directory. A finished stage is skipped;
an interrupted one resumes from its checkpoint.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from tokenizers import Tokenizer
from torch import nn
from transformers import LlavaForConditionalGeneration

import mmspec_world
from mmspec.checkpoints.hub import resolve
from mmspec.ground import errors
from mmspec.ground.output_files import new_directory, replace_text
from mmspec.prompt.tokenizer_files import read_backend
from mmspec_torch.device.devices import find_device
from mmspec_torch.device.tensor_files import safetensors_errors, save_tensors
from mmspec_train.mini import build, samples
from mmspec_train.mini.build import CellClassifier
from mmspec_train.mini.recipe import DRAFT_SHARES, RECIPES, Recipe
from mmspec_train.mini.settings import STAGES, MiniSettings
from mmspec_train.mini.tokenizer import PAD, token_id, train_tokenizer
from mmspec_train.run.log import Log, open_log
from mmspec_train.run.loop import Phase, run_phase
from mmspec_train.run.machine import Machine
from mmspec_train.run.run_manifest import NEW_OUT, claim
from mmspec_train.settings import Budget, LlamaShape
from mmspec_world.split import Split

EXPORTED = ("target", "draft")
"""Stages that also write a checkpoint."""
TOKENIZER_SAMPLES = 20_000


def train_pair(
    settings: MiniSettings, stages: Collection[str], budgets: Mapping[str, Budget]
) -> None:
    """Run the chosen stages of STAGES, skipping finished ones.

    Before writing, raises UsageError for a stage whose predecessor is missing, and for a directory
    that belongs to another recipe or seed.
    """
    machine = Machine(find_device(settings.device), compiled=settings.compile)
    out = settings.out
    run = PairRun(out, RECIPES[settings.recipe], machine, settings.seed)
    run.check_starts(stages)
    claim(out / "about.json", {"--recipe": settings.recipe, "--seed": settings.seed}, NEW_OUT)
    if settings.threads:
        torch.set_num_threads(settings.threads)
    with open_log(out) as log:
        run.begin()
        run.train_stages(stages, budgets, log)


@dataclass(frozen=True)
class PairRun:
    """A run in a directory: a stage's S.safetensors in float32, and checkpoints in `models`."""

    directory: Path
    recipe: Recipe
    machine: Machine
    seed: int = 0

    def check_starts(self, stages: Collection[str]) -> None:
        """Raise UsageError for a chosen stage whose predecessor is neither chosen nor done."""
        if self.recipe.start:
            if set(stages) != {"target"}:
                raise errors.UsageError(
                    f"this recipe continues {self.recipe.start}: give --stage target alone"
                )
            return
        for before, stage in pairwise(STAGES):
            is_missing = before not in stages and not self._is_finished(before)
            if stage in stages and is_missing and not self._is_finished(stage):
                raise errors.UsageError(
                    f"the stage {stage} starts from the {before}, which {self.directory} has not: "
                    f"give --stage {before} too"
                )

    def train_stages(
        self, stages: Collection[str], budgets: Mapping[str, Budget], log: Log
    ) -> None:
        """Run the chosen stages in order, skipping finished ones."""
        first = {"tokenizer": self._train_tokenizer, "tower": self._train_tower}
        for stage in STAGES:
            if stage in stages and not self._is_finished(stage):
                train = first.get(stage) or partial(self._train_llava, stage)
                train(budgets.get(stage, Budget(steps=0)), log)

    def begin(self) -> None:
        """Write the results of the stages before the target, if the recipe continues a model."""
        if not self.recipe.start or self._is_finished("projector"):
            return
        source = resolve(self.recipe.start, "torch")
        replace_text(self.result("tokenizer"), (source / "tokenizer.json").read_text("utf-8"))
        self._save("projector", LlavaForConditionalGeneration.from_pretrained(source))

    def result(self, stage: str) -> Path:
        """Return the path of a stage's result."""
        name = "tokenizer.json" if stage == "tokenizer" else f"{stage}.safetensors"
        return self.directory / name

    def checkpoint(self, name: str) -> Path:
        """Return the directory of a finished model, "target" or "draft"."""
        return self.directory / "models" / name

    def _is_finished(self, stage: str) -> bool:
        exported = stage not in EXPORTED or self.checkpoint(stage).exists()
        return exported and self.result(stage).exists()

    @property
    def tokenizer(self) -> Tokenizer:
        """The tokenizer of the first stage."""
        return read_backend(self.directory)

    def conversations(self, split: Split, *, draft: bool = False) -> samples.SampleBatches:
        """Return the batches of the target's samples, or of the draft's."""
        recipe, tokenizer = self.recipe, self.tokenizer
        shares = DRAFT_SHARES if draft else recipe.shares
        shares = {task: shares[task] for task in mmspec_world.SCRIPTS if task in shares}
        draw = partial(samples.draw_sample, recipe, tokenizer, shares, split, draft)
        pad, positions = token_id(tokenizer, PAD), recipe.positions_per_batch
        return samples.SampleBatches(draw, pad, positions, self.seed, split)

    def _train_tokenizer(self, _budget: Budget, _log: Log) -> None:
        tasks = mmspec_world.TASKS
        world_samples = (
            mmspec_world.sample(task, number, split="train", size=48)
            for task in tasks
            for number in range(TOKENIZER_SAMPLES // len(tasks))
        )
        texts = (text for sample in world_samples for text in samples.texts(sample))
        tokenizer = train_tokenizer(texts, self.recipe.vocabulary)
        replace_text(self.result("tokenizer"), tokenizer.to_str(pretty=True))

    def _train_tower(self, budget: Budget, log: Log) -> None:
        classifier = self._cell_classifier()
        self.machine.compile(classifier.tower.encoder.layers)
        tower, count = self.recipe.tower, self.recipe.images_per_batch
        pictures = samples.LabelledPictures(tower.image, tower.grid, count, self.seed)
        phase = Phase(
            "tower",
            classifier,
            [(classifier, self.recipe.tower_rate)],
            classifier.loss,
            [pictures],
            replace(pictures, split="held-out"),
        )
        self._train(phase, budget, log)

    def _train_llava(self, stage: str, budget: Budget, log: Log) -> None:
        """Train a LLaVA from the results of earlier stages; export the target and the draft."""
        recipe, is_draft = self.recipe, stage == "draft"
        model = self._llava(recipe.draft if is_draft else recipe.target)
        if self.result(stage).exists():  # trained before; only the export is missing
            _load(model, self.result(stage))
        else:
            self._take_results(stage, model)
            inner = model.model
            self.machine.compile(inner.vision_tower.encoder.layers, inner.language_model.layers)
            phase = Phase(
                stage,
                model,
                build.parts(model, recipe.rates[stage]),
                partial(build.learned_loss, model),
                [self.conversations("train", draft=is_draft)],
                self.conversations("held-out", draft=is_draft),
            )
            self._train(phase, budget, log)
        if stage in EXPORTED:
            with new_directory(self.checkpoint(stage)) as folder, safetensors_errors():
                processor = build.pair_processor(model, self.tokenizer, recipe.tower)
                build.save_llava(model, processor, folder)

    def _take_results(self, stage: str, model: LlavaForConditionalGeneration) -> None:
        """Give a model the weights that its stage starts from; a draft's tower is the target's."""
        tower = model.model.vision_tower
        if stage == "projector":
            classifier = self._cell_classifier()
            classifier.load_state_dict(load_file(self.result("tower")))
            tower.load_state_dict(classifier.tower.state_dict())
        elif stage == "target":
            _load(model, self.result("projector"))
        else:
            target = LlavaForConditionalGeneration.from_pretrained(self.checkpoint("target"))
            tower.load_state_dict(target.model.vision_tower.float().state_dict())

    def _train(self, phase: Phase[Any], budget: Budget, log: Log) -> None:
        """Train a phase and write its result."""
        state = self.directory / f"{phase.name}.checkpoint"
        run_phase(phase, budget, self.machine, state, log)
        self._save(phase.name, phase.module)
        state.unlink()

    def _save(self, stage: str, module: nn.Module) -> None:
        """Write a module's tensors, in float32, atomically as the stage's result."""
        tensors = {name: tensor.float() for name, tensor in module.state_dict().items()}
        tensors.pop("lm_head.weight", None)  # tied to the embeddings
        save_tensors(self.result(stage), tensors)

    def _cell_classifier(self) -> CellClassifier:
        tower = self._llava(self.recipe.target).model.vision_tower
        return CellClassifier(tower, self.recipe.tower.hidden, mmspec_world.LABELS)

    def _llava(self, sizes: LlamaShape) -> LlavaForConditionalGeneration:
        return build.llava(self.recipe, sizes, self.tokenizer, self.seed)


def _load(model: LlavaForConditionalGeneration, file: Path) -> None:
    tensors = load_file(file)
    embeddings = "model.language_model.embed_tokens.weight"
    model.load_state_dict(tensors | {"lm_head.weight": tensors[embeddings]})
