"""Memory, disk and hours of a training, computed from shapes without loading weights.

A forward of P parameters over one position counts 2 P operations, a training step 6 P. Lengths of
texts are estimated, those of images known: see `lengths`.
"""

from dataclasses import dataclass, replace
from math import prod
from pathlib import Path

import torch
from torch import nn

from mmspec.checkpoints.cards import load_cards
from mmspec.checkpoints.config import ModelConfig, read_config
from mmspec.checkpoints.hub import resolve
from mmspec.checkpoints.manifest import manifest
from mmspec.ground.errors import HubError
from mmspec_train.data_settings import DataSettings
from mmspec_train.drafts.draft_model import untrained_draft
from mmspec_train.drafts.train_drafts import require_llava
from mmspec_train.gpus import GIGA, TERA, Gpu, read_gpu
from mmspec_train.heads.head_checkpoint import head_config, max_depth, untrained_head
from mmspec_train.lengths import Lengths, measured_lengths
from mmspec_train.llama import llama_of_shape
from mmspec_train.recipes import RECIPES
from mmspec_train.settings import (
    DEFAULT_MINUTES,
    Budget,
    HeadMethodSettings,
    HeadShape,
    LlamaShape,
    MethodSettings,
)
from mmspec_train.teacher.corpus import open_corpora
from mmspec_train.teacher.teacher import preprocessing

TARGET_BYTES = 2
"""Bytes of a parameter of the target, in 16 bits."""
TRAINED_BYTES = 16
"""Bytes of a trained parameter: itself, its gradient and AdamW's two means, in float32."""
FLOAT32_BYTES = 4


@dataclass(frozen=True, slots=True)
class DryRun:
    """What a training is expected to take; bytes and seconds."""

    gpu: Gpu
    lengths: Lengths
    target_bytes: float
    trained_bytes: float
    logits_bytes: float
    answer_bytes: float
    """Bytes of keys and values while the target answers, before anything is trained."""
    states_bytes: float
    """Bytes of all hidden states; `stored_bytes` of them are stored."""
    stored_bytes: float
    answer_seconds: float
    state_seconds: float
    """Seconds of the target's forwards over all conversations, in training too if not stored."""
    training_seconds: float
    epochs: float
    """Epochs of training; 0 if a budget in minutes decides."""

    def lines(self) -> list[str]:
        """The plan as lines for the user."""
        trained = self.trained_bytes + self.logits_bytes
        memory = self.target_bytes + max(trained, self.answer_bytes)
        option = "--batch" if trained > self.answer_bytes else "--answer-rows"
        fits = "fits" if memory <= self.gpu.memory else f"does not fit: use a smaller {option}"
        seconds = self.answer_seconds + self.state_seconds + self.training_seconds
        return [
            f"plan on {self.gpu.name}: {self.gpu.operations / TERA:.0f} TFLOP/s and "
            f"{self.gpu.bandwidth / TERA:.2f} TB/s reached; nothing was loaded or trained",
            f"data: {self.lengths.conversations:,} conversations of {self.lengths.columns:.0f} "
            f"columns, {f'{self.epochs:.1f} epochs' if self.epochs else 'for the minutes given'}",
            f"memory: {_gb(memory)} of {_gb(self.gpu.memory)} ({fits}): target "
            f"{_gb(self.target_bytes)}, trained {_gb(self.trained_bytes)}, logits at most "
            f"{_gb(self.logits_bytes)}; while answering, keys and values {_gb(self.answer_bytes)}",
            f"disk: {_gb(self.stored_bytes)} of {_gb(self.states_bytes)} of hidden states stored "
            "(--cache-gb)",
            f"hours: {seconds / 3600:.1f}: answers {self.answer_seconds / 3600:.1f}, target's "
            f"states {self.state_seconds / 3600:.1f}, training {self.training_seconds / 3600:.1f}",
            *self.lengths.notes,
        ]


@dataclass(frozen=True)
class Training:
    """A training to plan: its target and the module that it trains."""

    target: ModelConfig
    module: nn.Module
    """The trained tensors; those on the device meta take no memory."""
    depth: int
    """Number of drafted tokens that are trained from each column."""
    lengths: Lengths
    settings: DataSettings
    method: MethodSettings
    budget: Budget
    reads_states: bool = True
    """True if the loss reads the target's hidden states, not only the answers."""
    reads_layers: bool = False
    """True if the head reads layers of the target, which are computed in every step."""
    drafted: int | None = None
    """Number of tokens that the module can draft; None for the target's vocabulary."""

    def on(self, gpu: Gpu) -> DryRun:
        """Compute what the training takes on a GPU."""
        lengths, vocabulary = self.lengths, self.drafted or self.target.text.vocab_size
        trained = sum(tensor.numel() for tensor in self.module.parameters())
        states = self._states_bytes()
        stored = min(states, self.settings.cache_bytes)
        epochs, fixed = self._epochs()
        share = stored / states if states else 0.0
        # The target's own answers come with their states.
        prepared = share if self.settings.answers == "dataset" else 0.0
        forwards = prepared + epochs * (1 if self.reads_layers else 1 - share)
        total = lengths.conversations / gpu.operations
        return DryRun(
            gpu,
            lengths,
            TARGET_BYTES * _parameters(self.target),
            TRAINED_BYTES * trained,
            2 * FLOAT32_BYTES * self.depth * self.settings.batch * vocabulary,
            self._answer_bytes(),
            states,
            stored,
            self._answer_seconds(gpu),
            total * self._target_operations(with_text=self.reads_states) * forwards,
            fixed or total * self._training_operations(trained) * epochs,
            epochs,
        )

    def _answer_bytes(self) -> float:
        """Bytes of keys and values of the mean conversations that are answered together."""
        text, settings = self.target.text, self.settings
        if settings.answers == "dataset":
            return 0.0
        width = 2 * text.num_hidden_layers * text.num_key_value_heads * text.head_dim
        return settings.answer_rows * self.lengths.columns * width * TARGET_BYTES

    def _states_bytes(self) -> float:
        """Bytes of the hidden states of all columns, and of the embeddings of all images."""
        if not self.reads_states:
            return 0.0
        lengths = self.lengths
        layers = 1 + (self.target.vision.deepstack_layers if self.target.vision else 0)
        rows = lengths.columns + lengths.visual * layers
        return lengths.conversations * rows * self.target.text.hidden_size * TARGET_BYTES

    def _target_operations(self, *, with_text: bool = True) -> float:
        """Operations of the tower over a conversation's images, and of the decoder over it."""
        vision = _parameters(self.target, "vision_tower.")
        text = (_parameters(self.target) - vision) * self.lengths.columns * with_text
        return 2 * text + 2 * vision * self.lengths.tower

    def _training_operations(self, trained: int) -> float:
        """Operations of a training step on a conversation, with the target's output matrix."""
        text, lengths = self.target.text, self.lengths
        logits = 2 * text.hidden_size * (self.drafted or text.vocab_size)
        layers = 6 * trained * (lengths.columns + (self.depth - 1) * lengths.answer)
        return layers + (1 + 2 * self.depth) * logits * lengths.answer

    def _answer_seconds(self, gpu: Gpu) -> float:
        """Seconds of generating all answers: prefills, then one reading of the weights a token."""
        if self.settings.answers == "dataset":
            return 0.0
        lengths, rows = self.lengths, self.settings.answer_rows
        prefills = lengths.conversations * self._target_operations() / gpu.operations
        steps = lengths.conversations * lengths.answer / rows
        return prefills + steps * TARGET_BYTES * _parameters(self.target) / gpu.bandwidth

    def _epochs(self) -> tuple[float, float]:
        """Return the epochs of the budget, and its seconds if it is one in minutes, else 0."""
        recipe, lengths, budget = RECIPES[self.method.recipe], self.lengths, self.budget
        least = self.method.update_rule(recipe.rule).batch
        step = max(float(least), self.settings.batch / lengths.columns)
        if budget.steps is not None:
            return budget.steps * step / lengths.conversations, 0.0
        if recipe.epochs and not budget.is_given:
            return recipe.epochs, 0.0
        return 0.0, 60 * (budget.minutes or DEFAULT_MINUTES)


def plan_head(
    gpu: str,
    kind: str,
    shape: HeadShape,
    method: HeadMethodSettings,
    budget: Budget,
    settings: DataSettings,
) -> DryRun:
    """Plan the training of a head; reads the target's config and the data alone."""
    target, lengths = _target_and_lengths(settings)
    with torch.device("meta"):
        head = untrained_head(head_config(kind, target, shape), settings.seed)
    depth, layers = max_depth(head, method.rollout), bool(head.config.captured(target))
    drafted = head.config.eagle3.draft_vocab_size if head.config.eagle3 else None
    sizes = target, head, depth, lengths, settings, method, budget
    training = Training(*sizes, reads_layers=layers, drafted=drafted)
    return training.on(read_gpu(gpu))


def plan_draft(
    gpu: str,
    shape: LlamaShape,
    method: MethodSettings,
    budget: Budget,
    settings: DataSettings,
    source: str | None = None,
) -> DryRun:
    """Plan the training of a draft that sees images; reads configs and the data.

    source: a Llama to start from, in place of one of this shape; its embeddings are padded.
    """
    target, lengths = _target_and_lengths(settings)
    require_llava(target)
    width, vocabulary = target.vision.hidden_size if target.vision else 0, target.text.vocab_size
    text = read_config(resolve(source, "torch")).text if source else None
    with torch.device("meta"):
        text = replace(text, vocab_size=vocabulary) if text else llama_of_shape(shape, vocabulary)
        draft = untrained_draft(text, settings.seed, width, target.image_tokens)
    training = Training(
        target, draft, 1, lengths, settings, method, budget, reads_states=method.loss != "ce"
    )
    return training.on(read_gpu(gpu))


def _target_and_lengths(settings: DataSettings) -> tuple[ModelConfig, Lengths]:
    target, directory = _target(settings.target)
    corpus, _ = open_corpora(settings, target)
    corpus.check()
    images = preprocessing(target, directory)
    return target, measured_lengths(corpus, settings, target, images)


def _target(name: str) -> tuple[ModelConfig, Path]:
    """A target's config and directory; a card that says its sizes need not be on this machine."""
    try:
        directory = resolve(name, "torch")
    except HubError:
        card = load_cards().get(name)
        if card is None or card.model is None:
            raise
        return card.model, Path(f"{name}.toml")
    return read_config(directory), directory


def _parameters(config: ModelConfig, prefix: str = "") -> int:
    """The number of parameters whose canonical names begin with `prefix`."""
    shapes = manifest(config).items()
    return sum(prod(shape) for name, shape in shapes if name.startswith(prefix))


def _gb(size: float) -> str:
    return f"{size / GIGA:,.1f} GB"
