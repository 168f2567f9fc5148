"""All stages of an answer on one backend, kept on the host to be compared."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from mmspec.bench.prompts import Prompt
from mmspec.engine import Engine
from mmspec.images import pixels
from mmspec.options import Options
from mmspec.replay import feed, opened
from mmspec.seam import Float32
from mmspec.tokenizer import Tokenizer


@dataclass(frozen=True, slots=True)
class Trace:
    """All that one backend makes of one prompt."""

    stages: dict[str, Float32]
    """Arrays by stage; those of several images are concatenated."""
    tokens: list[int]
    gaps: list[float]
    """The best logit minus the second best before each token."""
    speculative: list[int] | None
    """The answer with a draft; None without one."""


@dataclass(frozen=True, slots=True)
class Run:
    """All prompts on one backend, and what is said about it; the weights are gone."""

    draft: str | None
    dtype: str
    quantized: bool
    tokenizer: Tokenizer
    prompts: list[Prompt]
    traces: list[Trace]


def run(engine: Engine, prompts: Callable[[Engine], Sequence[Prompt]], options: Options) -> Run:
    """Trace every prompt on one engine."""
    model = engine.target.model
    asked = list(prompts(engine))
    return Run(
        engine.drafts.name if engine.drafts else None,
        model.dtype,
        model.config.quantization is not None,
        engine.target.tokenizer,
        asked,
        [trace(engine, prompt, options) for prompt in asked],
    )


def trace(engine: Engine, prompt: Prompt, options: Options) -> Trace:
    """Run every stage of one prompt."""
    chat = engine.chat(options)
    for _ in chat.send(prompt.message):
        pass
    speculative = chat.answer.token_ids if engine.drafts else None
    stages = dict(_image_stages(engine, prompt))
    stages["prefill logits"], steps = _steps(engine, prompt, options.max_new_tokens)
    return Trace(stages, [token for token, _ in steps], [gap for _, gap in steps], speculative)


def _image_stages(engine: Engine, prompt: Prompt) -> Iterator[tuple[str, Float32]]:
    cache, model = engine.target.features, engine.target.model
    pictures = prompt.message.pictures
    if cache is None or not pictures:
        return
    features = [cache(picture) for picture in pictures]
    shown = [pixels(picture, cache.preprocessing) for picture in pictures]
    yield "pixels", np.concatenate(shown)
    yield "vision features", np.concatenate([each.numpy() for each in features])
    yield "projected features", np.concatenate([model.project(each) for each in features])


def _steps(engine: Engine, prompt: Prompt, count: int) -> tuple[Float32, list[tuple[int, float]]]:
    """The logits after the prompt, then each greedy token with its top-2 logit gap."""
    target = opened(engine, prompt.message)
    first = logits = target.logits()
    steps: list[tuple[int, float]] = []
    while len(steps) < count:
        best, runner_up = np.sort(logits)[-1:-3:-1]
        token = int(logits.argmax())
        steps.append((token, float(best - runner_up)))
        if token in engine.stop:
            break
        feed(target, token)
        logits = target.logits()
    return first, steps
