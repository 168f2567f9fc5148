"""Compares backends on the same checkpoint, stage by stage.

Each backend computes all its stages before the next one is loaded, so that only one copy of the
weights is in memory.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from mmspec.chat.engine import Engine
from mmspec.chat.options import Options
from mmspec.diagnostics.check import (
    NEAR_TIES,
    Divergence,
    Outcome,
    Place,
    common_prefix,
    diverged,
)
from mmspec.diagnostics.prompts import Prompt
from mmspec.diagnostics.single_turn import answer_once, feed, prefilled_target
from mmspec.errors import UsageError
from mmspec.prompt.images import pixels
from mmspec.prompt.tokenizer import Tokenizer
from mmspec.seam import Float32

RELATIVE = {"float32": 1e-4, "float16": 2e-2, "bfloat16": 1e-1}
"""Largest allowed difference, relative to the stage's largest magnitude, by dtype.

Pixels are computed by the core and must be equal.
"""

Load = Callable[[str, Path], Engine]
"""Function that loads a checkpoint directory on the backend with that name."""


@dataclass(frozen=True, slots=True)
class Difference:
    """The difference between two backends' arrays of one stage."""

    stage: str
    largest: float
    """The largest absolute difference of two elements."""
    relative: float
    """`largest` divided by the largest magnitude of the first backend's array."""
    allowed: float | None
    """Tolerance for `relative`; None if the difference is only reported."""

    @property
    def passed(self) -> bool:
        """True if the difference is within the tolerance."""
        return self.allowed is None or self.relative <= self.allowed


@dataclass(frozen=True, slots=True)
class Agreement:
    """The comparison of two greedy answers."""

    kind: str
    """How the answers were decoded: 'plain' or 'speculative'."""
    outcome: Outcome
    tokens: int
    """Number of tokens in the first backend's answer."""
    divergence: Divergence | None

    @property
    def passed(self) -> bool:
        """True if the answers are identical, or diverge at a near-tie."""
        return self.outcome != "bug"


@dataclass(frozen=True, slots=True)
class PromptParity:
    """One prompt, compared between two backends or two checkpoints."""

    prompt: str
    differences: list[Difference]
    answers: list[Agreement]

    @property
    def passed(self) -> bool:
        """True if all stages and answers pass."""
        parts: list[Difference | Agreement] = [*self.differences, *self.answers]
        return all(part.passed for part in parts)


@dataclass(frozen=True, slots=True)
class ParityReport:
    """Differences between backends with equal weights, and between two sets of weights on one."""

    model: str
    draft: str | None
    backends: list[str]
    dtype: str
    quantized: bool
    allowed: float
    near_tie: float
    port: dict[str, list[PromptParity]]
    """Comparisons with the first backend, by the name of the other backend."""
    reference: str | None = None
    quantization: list[PromptParity] | None = None
    """Comparison with the float `reference` on the first backend; reported, never failed."""

    @property
    def passed(self) -> bool:
        """True if every prompt passes on every backend."""
        return all(prompt.passed for prompts in self.port.values() for prompt in prompts)

    @property
    def exit_code(self) -> int:
        """The command's exit status: 0 if everything passed, else 1."""
        return 0 if self.passed else 1

    def as_dict(self) -> dict[str, Any]:
        """The report as a JSON-serializable object."""
        return {"passed": self.passed, "exit_code": self.exit_code} | asdict(self)


@dataclass(frozen=True, slots=True)
class StageArrays:
    """The arrays and answers of one backend for one prompt, on the host."""

    stages: dict[str, Float32]
    """Array of each stage by the stage's name; those of several images are concatenated."""
    answers: dict[str, list[int]]
    """Token ids of the 'plain' and, with a draft, the 'speculative' answer."""
    logits: list[Float32]
    """[V] logits before each token, decoding plainly."""


def parity(
    load: Load,
    directory: Path,
    backends: Sequence[str],
    prompts: Sequence[Prompt],
    options: Options,
    *,
    reference: Path | None = None,
) -> ParityReport:
    """Compare every backend with the first, and a quantized checkpoint with a float one.

    options: drafting options, and the number of tokens to compare.  Raises UsageError for fewer
    than two backends, or for a reference if the weights are not packed.
    """
    if len(set(backends)) < max(2, len(backends)):
        raise UsageError(f"--backends {','.join(backends)}: give two or more different ones")
    engine = load(backends[0], directory)
    model, tokenizer = engine.target.model, engine.target.tokenizer
    draft, dtype = engine.drafts.name if engine.drafts else None, model.dtype
    quantized = model.config.quantization is not None
    if reference and not quantized:
        raise UsageError(
            f"--reference {reference}: the model is not quantized, so there is no quantization "
            "error to tell apart; leave --reference out"
        )
    base = [stage_arrays(engine, prompt, options) for prompt in prompts]
    del engine, model

    def compared(backend: str, where: Path, allowed: float | None) -> list[PromptParity]:
        other = load(backend, where)
        return [
            PromptParity(
                prompt.name,
                differences(first.stages, second.stages, allowed),
                agreements(first, second, NEAR_TIES[dtype], tokenizer),
            )
            for prompt, first in zip(prompts, base, strict=True)
            for second in [stage_arrays(other, prompt, options)]
        ]

    return ParityReport(
        model=str(directory),
        draft=draft,
        backends=list(backends),
        dtype=dtype,
        quantized=quantized,
        allowed=RELATIVE[dtype],
        near_tie=NEAR_TIES[dtype],
        port={name: compared(name, directory, RELATIVE[dtype]) for name in backends[1:]},
        reference=str(reference) if reference else None,
        quantization=compared(backends[0], reference, None) if reference else None,
    )


def stage_arrays(engine: Engine, prompt: Prompt, options: Options) -> StageArrays:
    """Compute the arrays of every stage for one prompt."""
    answer = answer_once(engine, prompt.message, options)
    plain, logits = _decode(engine, prompt, options.max_new_tokens)
    stages = dict(_image_stages(engine, prompt)) | {"prefill logits": logits[0]}
    speculative = {"speculative": answer.token_ids} if engine.drafts else {}
    return StageArrays(stages, {"plain": plain} | speculative, logits)


def _image_stages(engine: Engine, prompt: Prompt) -> Iterator[tuple[str, Float32]]:
    cache, model = engine.target.features, engine.target.model
    pictures = prompt.message.pictures
    if cache is None or not pictures:
        return
    features = [cache(picture) for picture in pictures]
    arrays = [pixels(picture, cache.preprocessing) for picture in pictures]
    yield "pixels", np.concatenate(arrays)
    yield "vision features", np.concatenate([image.numpy() for image in features])
    yield "projected features", np.concatenate([model.project(image) for image in features])


def _decode(engine: Engine, prompt: Prompt, count: int) -> tuple[list[int], list[Float32]]:
    """Greedy tokens, and the logits before each."""
    target = prefilled_target(engine, prompt.message)
    tokens: list[int] = []
    logits: list[Float32] = []
    while len(tokens) < count:
        if tokens:
            feed(target, tokens[-1])
        logits.append(target.logits())
        tokens.append(int(logits[-1].argmax()))
        if tokens[-1] in engine.target.stop:
            break
    return tokens, logits


def differences(
    first: Mapping[str, Float32], second: Mapping[str, Float32], allowed: float | None
) -> list[Difference]:
    """Compare arrays of equal shape, stage by stage; inf and nan count as float32's maximum.

    allowed: limit for the relative difference; None only reports differences.
    """
    result = []
    for stage, array in first.items():
        distance = np.nan_to_num(np.abs(array - second[stage]), nan=np.inf)
        largest, scale = float(distance.max()), float(np.abs(array).max()) or 1.0
        limit = 0.0 if stage == "pixels" else allowed
        result.append(Difference(stage, largest, largest / scale, limit))
    return result


def agreements(
    first: StageArrays, second: StageArrays, near_tie: float, tokenizer: Tokenizer
) -> list[Agreement]:
    """Compare two backends' answers; near_tie: logit gap that counts as a tie."""
    result = []
    for kind, tokens in first.answers.items():
        divergence: Divergence | None = None
        outcome: Outcome = "identical"
        other = second.answers[kind]
        if tokens != other:
            at = min(common_prefix(tokens, other), len(first.logits) - 1)
            divergence = diverged(tokens, other, Place(first.logits[at]), tokenizer)
            outcome = divergence.outcome(near_tie)
        result.append(Agreement(kind, outcome, len(tokens), divergence))
    return result
