"""Memory, disk and hours of a training, computed from shapes and the data alone."""

from collections.abc import Callable
from contextlib import suppress
from math import inf, prod
from typing import NamedTuple

from mmspec.checkpoints.cards import load_cards
from mmspec.checkpoints.config import ModelConfig, read_config
from mmspec.checkpoints.hub import resolve
from mmspec.checkpoints.manifest import manifest
from mmspec.ground.errors import ImageError, UsageError, choice
from mmspec_torch.device.devices import find_device
from mmspec_train.data.corpus import Corpus, open_corpora
from mmspec_train.run.machine import measured_rates
from mmspec_train.settings import DEFAULT_MINUTES, Budget, DataSettings

GPUS = {"rtx-4090": (66.0, 0.4, 24.0), "a100": (125.0, 0.8, 80.0), "h100": (396.0, 1.3, 80.0)}
GPUS |= {"h200": (396.0, 1.9, 141.0)}
"""TFLOP/s in bfloat16 and TB/s, 40 % of the makers' figures (not measured here), and GB."""
SAMPLED, CHARACTERS_PER_TOKEN = 200, 4
HERE = "here"
"""The value of --plan that measures this machine."""
LOGIT_BYTES = 64
"""Bytes that a step moves for a logit of a drafted token, beside products; measured on a CPU."""


class Trained(NamedTuple):
    """What is trained, as far as a plan needs it."""

    parameters: int
    """Those of a head or a draft that every column is multiplied with."""
    depth: int
    """Drafted tokens from a starting point."""
    vocabulary: int
    captured: int = 0
    """Layers of the target whose outputs it reads."""
    starts: float = inf
    """Most starting points of a conversation."""


def rates(gpu: str) -> tuple[float, ...]:
    """Return TFLOP/s, TB/s and GB of a GPU's name, or of measured figures as `mine=130,0.9,24`.

    'here' measures this machine.
    """
    if gpu == HERE:
        return measured_rates(find_device("auto"))
    name, separator, measured = gpu.lower().partition("=")
    figures = measured.split(",")
    if not separator and name not in GPUS:
        raise choice("GPU", name, [HERE, *GPUS])
    if separator and (len(figures) != 3 or not all(f.replace(".", "").isdigit() for f in figures)):
        raise UsageError(f"--plan {gpu}: give a name, or TFLOP/s, TB/s and GB as mine=130,0.9,24")
    return tuple(map(float, figures)) if separator else GPUS[name]


def plan(
    gpu: str, settings: DataSettings, budget: Budget, trained_for: Callable[[ModelConfig], Trained]
) -> list[str]:
    """Return the memory, disk and hours of a training as lines for the user."""
    tflops, bandwidth, size = rates(gpu)
    card = load_cards().get(settings.target)
    target = (card and card.model) or read_config(resolve(settings.target, "torch"))
    trained = trained_for(target)
    corpus, _ = open_corpora(settings, target)
    corpus.check()
    count = min(settings.samples, corpus.size or settings.samples)
    own, weights = settings.answers == "target", sum(map(prod, manifest(target).values()))
    lengths = own * settings.answer_tokens, target.image_tokens
    columns, answer = _lengths(corpus, min(count, SAMPLED), *lengths)
    epochs = (budget.steps or 0) * max(1.0, settings.batch / columns) / count
    guesses, width = trained.depth * min(answer, trained.starts), target.text.hidden_size
    states = 2 * count * columns * width * (1 + trained.captured)
    stored = min(states, settings.cache_bytes)
    # The target reads each conversation once, once more for captured layers, and where its states
    # are not stored in every epoch.
    reads = 1 + (trained.captured > 0) + epochs * (1 - stored / states)
    logits = 2 * trained.vocabulary * width * (min(answer, guesses) + 3 * guesses)
    step = 6 * trained.parameters * (columns + guesses) + logits
    seconds = (2 * weights * columns * reads + epochs * step) * count / (1e12 * tflops)
    moved = LOGIT_BYTES * trained.vocabulary * guesses
    seconds += epochs * moved * count / (1e12 * bandwidth)
    seconds += own * count * answer / settings.answer_rows * 2 * weights / (1e12 * bandwidth)
    seconds += 0 if epochs else 60 * (budget.minutes or DEFAULT_MINUTES)
    logits_at_once = guesses * settings.batch / columns * trained.vocabulary
    memory = 2 * weights + 16 * trained.parameters + 8 * logits_at_once
    fits = "fits" if memory <= size * 1e9 else "does not fit: use a smaller --batch"
    return [
        f"plan on {gpu}: {tflops:.3g} TFLOP/s, {bandwidth:.2g} TB/s; nothing was loaded or trained",
        f"data: {count:,} conversations of {columns:.0f} columns, {epochs:.1f} epochs",
        f"memory: {memory / 1e9:,.1f} GB of {size:,.0f} GB: {fits}",
        f"disk: {stored / 1e9:,.1f} GB of hidden states (--cache-gb)",
        f"hours: {seconds / 3600:.1f}",
        *corpus.notes(),
    ]


def _lengths(corpus: Corpus, count: int, own: int, image: int) -> tuple[float, float]:
    """Return the columns, and those of the answers, of the mean of `count` conversations.

    own: tokens of an answer of the target, 0 for the dataset's. image: columns of an image.
    """
    turns, read = [], 0
    for number in range(count):
        with suppress(ImageError):
            turns += corpus.turns(number)
            read += 1
    answers = sum(own or len(turn.answer_text) / CHARACTERS_PER_TOKEN for turn in turns)
    parts = (part for turn in turns for part in turn.question.parts)
    sizes = (len(p) / CHARACTERS_PER_TOKEN if isinstance(p, str) else image for p in parts)
    return (sum(sizes) + answers) / max(1, read), answers / max(1, read)
