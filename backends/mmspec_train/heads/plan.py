"""Memory, disk and hours of training a head, computed from shapes and the data alone."""

from contextlib import suppress
from math import prod

from mmspec.checkpoints.cards import load_cards
from mmspec.checkpoints.config import read_config
from mmspec.checkpoints.head_manifest import head_manifest
from mmspec.checkpoints.hub import resolve
from mmspec.checkpoints.manifest import manifest
from mmspec.ground.errors import ImageError, UsageError, choice
from mmspec_train.data.corpus import Corpus, open_corpora
from mmspec_train.heads.train_heads import head_config
from mmspec_train.settings import Budget, DataSettings, HeadMethodSettings, HeadShape

GPUS = {"rtx-4090": (66.0, 0.4, 24.0), "a100": (125.0, 0.8, 80.0), "h100": (396.0, 1.3, 80.0)}
GPUS |= {"h200": (396.0, 1.9, 141.0)}
"""TFLOP/s in bfloat16 and TB/s, 40 % of the makers' figures (not measured here), and GB."""
SAMPLE_SIZE, CHARACTERS_PER_TOKEN = 200, 4
LOGIT_BYTES = 64
"""Bytes that a step moves for a logit of a drafted token, beside products; measured on a CPU."""
Method = tuple[HeadShape, HeadMethodSettings, Budget]


def plan(gpu: str, kind: str, head: Method, settings: DataSettings) -> list[str]:
    """Return the memory, disk and hours of a training as lines; gpu: a name of GPUS."""
    if gpu not in GPUS:
        raise choice("GPU", gpu, [*GPUS])
    tflops, bandwidth, size = GPUS[gpu]
    shape, method, budget = head
    card = load_cards().get(settings.target)
    target = (card and card.model) or read_config(resolve(settings.target, "torch"))
    config = head_config(kind, target, shape)
    vocabulary = config.draft_vocab_size or config.vocab_size
    layers = config.captured_layers(target)
    of_words, tensors = {vocabulary, config.vocab_size}, head_manifest(config).values()
    parameters = sum(prod(shape) for shape in tensors if of_words.isdisjoint(shape))
    corpus, _ = open_corpora(settings, target)
    notes = corpus.check()
    count = min(settings.samples, corpus.size or settings.samples)
    answer_tokens = settings.answer_tokens if settings.answers == "target" else 0
    sizes = min(count, SAMPLE_SIZE), answer_tokens, target.image_tokens
    columns, answer, visual = _lengths(corpus, *sizes)
    visual *= 1 + len(getattr(target.vision, "deepstack", ()))
    epochs = (budget.steps or 0) * max(1.0, settings.batch / columns) / count
    guesses = min(answer, method.anchors) * (config.slots or method.rollout)
    states = 2 * count * config.hidden_size * (columns * (1 + len(layers)) + visual)
    disk, weights = min(states, settings.cache_bytes), sum(map(prod, manifest(target).values()))
    # Once each, once more for captured layers, and in every epoch where states are not stored.
    reads = 1 + bool(layers) + epochs * (1 - disk / states)
    logits = 2 * vocabulary * config.hidden_size * (min(answer, guesses) + 3 * guesses)
    traffic = epochs * LOGIT_BYTES * vocabulary * guesses
    traffic += bool(answer_tokens) * answer / settings.answer_rows * 2 * weights
    products = 2 * weights * columns * reads
    products += epochs * (6 * parameters * (columns + guesses) + logits)
    seconds = count * (products / tflops + traffic / bandwidth) / 1e12
    seconds += 0 if epochs else budget.seconds
    least = (2 * weights + 16 * sum(map(prod, tensors))) / 1e9
    memory = least + 8 * guesses * settings.batch / columns * vocabulary / 1e9
    length = f"{epochs:.1f} epochs" if epochs else f"{budget.seconds / 60:g} minutes of steps"
    why = "use a smaller --batch" if least <= size else f"without a batch {least:.1f} GB are taken"
    fits = "fits" if memory <= size else f"does not fit: {why}"
    return [
        f"plan on {gpu}: {tflops:.3g} TFLOP/s, {bandwidth:.2g} TB/s; nothing was loaded or trained",
        f"data: {count:,} conversations of {columns:.0f} columns, {length}",
        f"memory: {memory:,.1f} GB of {size:,.0f} GB: {fits}",
        f"disk: {disk / 1e9:,.1f} GB of hidden states (--cache-gb)",
        f"hours: {seconds / 3600:.1f}",
        *notes,
    ]


def _lengths(corpus: Corpus, sample: int, answer: int, image: int) -> tuple[float, ...]:
    """Mean columns of conversations, answers and images; answer: a turn's, 0: the dataset's."""
    turns, count = [], 0
    for number in range(sample):
        with suppress(ImageError):
            turns += corpus.turns(number)
            count += 1
    answers = sum(answer or len(turn.answer_text) / CHARACTERS_PER_TOKEN for turn in turns)
    parts = [part for turn in turns for part in turn.question.parts]
    visual = image * sum(not isinstance(part, str) for part in parts)
    words = sum(len(part) for part in parts if isinstance(part, str)) / CHARACTERS_PER_TOKEN
    if not (columns := words + answers + visual):
        raise UsageError(f"none of the first {sample} conversations can be read: see their images")
    return columns / count, answers / count, visual / count
