"""Memory, disk and hours of a training, computed from shapes and the data alone."""

from collections.abc import Callable
from contextlib import suppress
from math import prod
from typing import NamedTuple

from mmspec.checkpoints.cards import load_cards
from mmspec.checkpoints.config import ModelConfig, read_config
from mmspec.checkpoints.hub import resolve
from mmspec.checkpoints.manifest import manifest
from mmspec.ground.errors import ImageError, UsageError, choice
from mmspec_train.data.corpus import Corpus, open_corpora
from mmspec_train.settings import DEFAULT_MINUTES, Budget, DataSettings

GPUS = {"rtx-4090": (66.0, 0.4, 24.0), "a100": (125.0, 0.8, 80.0), "h100": (396.0, 1.3, 80.0)}
GPUS |= {"h200": (396.0, 1.9, 141.0)}
"""TFLOP/s in bfloat16 and TB/s, 40 % of the makers' figures (not measured here), and GB."""
SAMPLED, CHARACTERS_PER_TOKEN = 200, 4


class Trained(NamedTuple):
    """A head or a draft: its parameters, drafted tokens, vocabulary and epochs."""

    parameters: int
    depth: int
    vocabulary: int
    epochs: float


def rates(gpu: str) -> tuple[float, ...]:
    """Return TFLOP/s, TB/s and GB of a GPU's name, or of measured figures as `mine=130,0.9,24`."""
    name, separator, measured = gpu.partition("=")
    if not separator and name.lower() not in GPUS:
        raise choice("GPU", name, GPUS)
    with suppress(ValueError):
        figures = map(float, measured.split(",")) if separator else GPUS[name.lower()]
        tflops, bandwidth, size = figures
        return tflops, bandwidth, size
    raise UsageError(f"--plan {gpu}: give a name, or TFLOP/s, TB/s and GB as mine=130,0.9,24")


def plan(
    gpu: str, settings: DataSettings, budget: Budget, trained_for: Callable[[ModelConfig], Trained]
) -> list[str]:
    """Return the memory, disk and hours of a training as lines for the user."""
    tflops, bandwidth, size = rates(gpu)
    card = load_cards().get(settings.target)
    target = (card and card.model) or read_config(resolve(settings.target, "torch"))
    trained, (corpus, _) = trained_for(target), open_corpora(settings, target)
    corpus.check()
    count = min(settings.samples, corpus.size or settings.samples)
    columns, answer = _lengths(corpus, min(count, SAMPLED), settings, target)
    weights = sum(map(prod, manifest(target).values()))
    states = 2 * count * columns * target.text.hidden_size
    epochs = 0.0 if budget.is_given else trained.epochs
    epochs = budget.steps * max(1.0, settings.batch / columns) / count if budget.steps else epochs
    writes = count * answer / settings.answer_rows * (settings.answers == "target")
    step = 6 * trained.parameters * (columns + trained.depth * answer)
    seconds = (2 * weights * columns + epochs * step) * count / (1e12 * tflops)
    seconds += writes * 2 * weights / (1e12 * bandwidth)
    seconds += 0 if epochs else 60 * (budget.minutes or DEFAULT_MINUTES)
    logits = 8 * trained.depth * settings.batch * trained.vocabulary
    memory = (2 * weights + 16 * trained.parameters + logits) / 1e9
    fits = "fits" if memory <= size else "does not fit: use a smaller --batch"
    return [
        f"plan on {gpu}: {tflops:.0f} TFLOP/s, {bandwidth:.1f} TB/s; nothing was loaded or trained",
        f"data: {count:,} conversations of {columns:.0f} columns, {epochs:.1f} epochs",
        f"memory: {memory:,.1f} GB of {size:,.0f} GB: {fits}",
        f"disk: {min(states, settings.cache_bytes) / 1e9:,.1f} GB of hidden states (--cache-gb)",
        f"hours: {seconds / 3600:.1f}",
        *corpus.notes(),
    ]


def _lengths(
    corpus: Corpus, count: int, settings: DataSettings, target: ModelConfig
) -> tuple[float, float]:
    """Return the columns, and those of the answers, of the mean of `count` conversations."""
    turns, read = [], 0
    for number in range(count):
        with suppress(ImageError):
            turns += corpus.turns(number)
            read += 1
    own = settings.answer_tokens * CHARACTERS_PER_TOKEN * (settings.answers == "target")
    answers = sum(own or len(turn.answer_text) for turn in turns) / CHARACTERS_PER_TOKEN
    parts = [part for turn in turns for part in turn.question.parts]
    texts = sum(len(part) for part in parts if isinstance(part, str)) / CHARACTERS_PER_TOKEN
    images = sum(not isinstance(part, str) for part in parts) * target.image_tokens
    return (texts + images + answers) / max(1, read), answers / max(1, read)
