"""Compares backends on a checkpoint, stage by stage, with one copy of the weights in memory."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from mmspec.chat.answer import Answer
from mmspec.chat.engine import Engine
from mmspec.chat.options import Options
from mmspec.decoding.contract import Float32
from mmspec.decoding.inspection import ProjectingModel, ReadableFeatures
from mmspec.diagnostics.check import (
    NEAR_TIES,
    Divergence,
    answer_once,
    first_divergence,
    prefilled_target,
)
from mmspec.diagnostics.prompts import Prompt
from mmspec.drafters.views import PLAIN
from mmspec.ground.errors import UsageError

RELATIVE = {"float32": 1e-4, "float16": 2e-2, "bfloat16": 1e-1}
"""Largest allowed share of a stage's largest magnitude, by dtype; pixels must be equal."""

Results = tuple[dict[str, Float32], dict[str, Answer]]
"""One engine's arrays by stage, and its 'plain' and, with a draft, 'speculative' answer."""


@dataclass(frozen=True, slots=True)
class StageDifference:
    """One stage of one prompt, compared between two backends or two checkpoints."""

    prompt: str
    stage: str
    """'pixels', 'vision features', 'projected features', 'prefill logits', 'plain tokens' or
    'speculative tokens'."""
    largest: float | None
    """The largest absolute difference of two elements; None for tokens."""
    relative: float | None
    """`largest` divided by the largest finite magnitude of the first array; None for tokens."""
    passed: bool | None
    """True within the tolerance, or if answers are equal or near ties; None if only reported."""
    divergence: Divergence | None = None
    """Where the answers diverge, by the logits of the second engine; None if they are equal."""


@dataclass(frozen=True, slots=True)
class AcrossReport:
    """Differences between backends, and between quantized and float weights on one backend."""

    model: str
    draft: str | None
    backends: list[str]
    dtype: str
    allowed: float
    near_tie: float
    port: dict[str, list[StageDifference]]
    """Comparisons with the first backend, by the name of the other backend."""
    reference: str | None
    quantization: list[StageDifference]
    """Comparison with the float `reference` on the first backend; reported, never failed."""
    decoding: dict[str, dict[str, Any]]
    """Whether each backend decodes `directory` exactly: `ExactFields` by its name."""

    @property
    def passed(self) -> bool:
        """True if every stage of every prompt passes on every backend."""
        return all(stage.passed for stages in self.port.values() for stage in stages)

    @property
    def exit_code(self) -> int:
        """The command's exit status: 0 if everything passed, else 1."""
        return int(not self.passed)

    def as_dict(self) -> dict[str, Any]:
        """The report as a JSON-serializable object."""
        return {"passed": self.passed, "exit_code": self.exit_code} | asdict(self)


def across(
    load: Callable[[str, Path], Engine],
    directory: Path,
    backends: Sequence[str],
    prompts: Sequence[Prompt],
    options: Options,
    *,
    stages: bool = True,
    reference: Path | None = None,
) -> AcrossReport:
    """Compare every backend with the first, and a quantized checkpoint with a float one.

    load: loads a directory on the backend of a name.  options: drafting options, and the number of
    tokens to compare.  stages: compare pixels, features and logits too, not tokens alone.  Raises
    UsageError for fewer than two backends, or for a reference if `directory` is not quantized.
    """
    if len(set(backends)) < max(2, len(backends)):
        raise UsageError(f"`across={','.join(backends)}`: give two or more different ones")
    engine = load(backends[0], directory)
    draft, dtype = engine.drafts.name if engine.drafts else None, engine.target.model.dtype
    if reference and engine.target.model.config.quantization is None:
        raise UsageError(
            f"`reference={reference}`: the model is not quantized, so there is no quantization "
            "error to tell apart; leave `reference` out"
        )
    decoding = {backends[0]: engine.exact_fields(options.exact)}
    base = [_results(engine, prompt, options, stages=stages) for prompt in prompts]
    del engine

    def compare_with(backend: str, where: Path) -> list[StageDifference]:
        engine = load(backend, where)
        decoding.setdefault(backend, engine.exact_fields(options.exact))
        pairs = zip(prompts, base, strict=True)
        return [stage for pair in pairs for stage in _compare(engine, *pair, options, dtype)]

    quantization = compare_with(backends[0], reference) if reference else []
    return AcrossReport(
        model=str(directory),
        draft=draft,
        backends=list(backends),
        dtype=dtype,
        allowed=RELATIVE[dtype],
        near_tie=NEAR_TIES[dtype],
        port={name: compare_with(name, directory) for name in backends[1:]},
        reference=str(reference) if reference else None,
        quantization=[replace(stage, passed=None) for stage in quantization],
        decoding=decoding,
    )


def _results(engine: Engine, prompt: Prompt, options: Options, *, stages: bool) -> Results:
    plain = replace(options, drafting=PLAIN.spec)
    ways = {"plain": plain, "speculative": options} if engine.drafts else {"plain": plain}
    answers = {kind: answer_once(engine, prompt.message, way) for kind, way in ways.items()}
    return dict(_arrays(engine, prompt) if stages else ()), answers


def _arrays(engine: Engine, prompt: Prompt) -> Iterator[tuple[str, Float32]]:
    """Yield the name and the array of each stage; those of several images are concatenated."""
    cache, pictures = engine.target.features, prompt.message.pictures
    if cache and pictures:
        features = [cache(picture) for picture in pictures]
        model, rows = engine.target.model, [f for f in features if isinstance(f, ReadableFeatures)]
        if not isinstance(model, ProjectingModel) or len(rows) < len(features):
            raise UsageError(f"`stages`: the backend {engine.backend.name} shows no image features")
        yield "pixels", np.concatenate([cache.pixels(picture).ravel() for picture in pictures])
        yield "vision features", np.concatenate([image.numpy() for image in rows])
        yield "projected features", np.concatenate([model.project(image) for image in features])
    yield "prefill logits", prefilled_target(engine, prompt.message).logits()


def _compare(
    engine: Engine, prompt: Prompt, first: Results, options: Options, dtype: str
) -> Iterator[StageDifference]:
    arrays, answers = first
    other_arrays, other_answers = _results(engine, prompt, options, stages=bool(arrays))
    for stage, array in arrays.items():
        tolerance = 0.0 if stage == "pixels" else RELATIVE[dtype]
        largest, relative = difference(array, other_arrays[stage])
        yield StageDifference(prompt.name, stage, largest, relative, relative <= tolerance)
    for kind, answer in answers.items():
        divergence = first_divergence(engine, prompt.message, answer, other_answers[kind], options)
        passed = divergence is None or divergence.outcome(NEAR_TIES[dtype]) != "bug"
        yield StageDifference(prompt.name, f"{kind} tokens", None, None, passed, divergence)


def difference(first: Float32, second: Float32) -> tuple[float, float]:
    """The largest absolute difference, and the same over the largest finite magnitude in `first`.

    The arrays have equal shapes. A difference of inf or nan counts as float32's maximum.
    """
    maximum = float(np.finfo(np.float32).max)
    largest = float(np.nan_to_num(np.abs(first - second), nan=maximum).max())
    magnitude = float(np.nan_to_num(np.abs(first), nan=0.0, posinf=0.0).max())
    return largest, largest / (magnitude or 1.0)
