"""Ways of answering the same prompt, timed alike."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from time import perf_counter
from typing import Protocol

import numpy as np

from mmspec.bench.prompts import Prompt
from mmspec.engine import Engine
from mmspec.errors import choice
from mmspec.images import pixels
from mmspec.options import Gamma, Options
from mmspec.registry import registered
from mmspec.replay import rendered
from mmspec.seam import Float32

BASELINES = "mmspec.baselines"


@dataclass(frozen=True, slots=True)
class Timing:
    """One answer and what it took."""

    tokens: list[int]
    timed_tokens: int
    """Tokens whose forwards fall into `seconds`."""
    seconds: float
    """Decoding alone: vision, captions and prefill are left out."""
    rounds: int = 0
    depth: int = 0
    """Drafted tokens that could have been kept: of trees, one of each level."""
    accepted: int = 0
    peak_memory_bytes: int = 0

    @property
    def tokens_per_second(self) -> float:
        """Tokens over seconds."""
        return self.timed_tokens / self.seconds


class Arm(Protocol):
    """One way of answering."""

    @property
    def name(self) -> str:
        """How reports call it."""
        ...

    def answer(self, prompt: Prompt) -> Timing:
        """Answer greedily from a cold cache."""
        ...


@dataclass(frozen=True, slots=True)
class EngineArm:
    """This project's loop, plain or speculative."""

    name: str
    engine: Engine
    options: Options

    def answer(self, prompt: Prompt) -> Timing:
        """Answer in a new conversation; the clock is the loop's own."""
        chat = self.engine.chat(self.options)
        for _ in chat.send(prompt.message):
            pass
        told, ids = chat.answer.statistics, chat.answer.token_ids
        return Timing(
            ids,
            len(ids),
            told.seconds["decode"],
            told.rounds,
            told.depth,
            told.accepted,
            told.peak_memory_bytes,
        )


def chosen(options: Options, word: str, gamma: Gamma) -> Options:
    """The options with another drafting; weights stay where the letters do."""
    weights = options.weights if word == options.drafting else ()
    return replace(options, drafting=word, gamma=gamma, weights=weights)


def drafting_arm(
    engine: Engine, options: Options, word: str, gamma: Gamma, prefix: str = ""
) -> Arm:
    """The arm that drafts `gamma` tokens a round from the views `word`; 'none' is plain."""
    name = "plain" if word == "none" else f"{word} gamma {gamma}"
    return EngineArm(prefix + name, engine, chosen(options, word, gamma))


class Baseline(Protocol):
    """Another project's decoding of the same checkpoint; found by an entry point."""

    def answer(
        self, tokens: Sequence[int], images: Float32, max_tokens: int, stop: Sequence[int]
    ) -> tuple[list[int], list[float]]:
        """Greedy tokens, and the clock when each was known.

        tokens: the prompt, every image as its visual positions.  images: [n, 3, height, width].
        """
        ...


@dataclass(frozen=True, slots=True)
class BaselineArm:
    """Another project's loop on the same prompt ids and pixels."""

    name: str
    engine: Engine
    options: Options
    baseline: Baseline

    def answer(self, prompt: Prompt) -> Timing:
        """Answer; timed from the first token, which ends the prefill, to the last."""
        loaded, stop = self.engine.target, sorted(self.engine.stop)
        views = loaded.views(self.engine.caption)
        chunks = rendered(self.engine, prompt.message)
        ids = [id for chunk in chunks for id in views.segment(chunk, loaded.view).tokens]
        started = perf_counter()
        count = self.options.max_new_tokens
        tokens, clock = self.baseline.answer(ids, self._images(prompt), count, stop)
        if len(clock) < 2:
            return Timing(tokens, len(tokens), clock[-1] - started, len(tokens))
        return Timing(tokens, len(tokens) - 1, clock[-1] - clock[0], len(tokens))

    def _images(self, prompt: Prompt) -> Float32:
        cache, pictures = self.engine.target.features, prompt.message.pictures
        if cache is None or not pictures:
            return np.zeros((0, 3, 1, 1), np.float32)
        return np.stack([pixels(picture, cache.preprocessing) for picture in pictures])


def load_baseline(name: str, directory: Path, device: str, dtype: str) -> Baseline:
    """Load a baseline; raises UsageError for one that no installed package offers."""
    known = registered(BASELINES)
    if name not in known:
        raise choice("baseline", name, sorted(known))
    baseline: Baseline = known[name].load()(directory, device=device, dtype=dtype)
    return baseline
