"""The same checkpoint on several backends, compared stage by stage.

Every backend computes all its stages before the next one is loaded, so that only one copy of the
weights is in memory at a time.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from mmspec.bench.prompts import Prompt
from mmspec.check import NEAR_TIES, common_prefix
from mmspec.engine import Engine
from mmspec.errors import UsageError
from mmspec.options import Options
from mmspec.seam import Float32
from mmspec.tokenizer import Tokenizer
from mmspec.trace import Run, Trace, run

RELATIVE = {"float32": 1e-4, "float16": 2e-2, "bfloat16": 1e-1}
"""The largest difference allowed, relative to the largest magnitude of the stage, by type.

Pixels are one array made in the core and must be equal.
"""

Load = Callable[[str, Path], Engine]
"""Loads a checkpoint's directory on the backend of that name."""


@dataclass(frozen=True, slots=True)
class Difference:
    """How far a stage on one backend is from the same stage on another."""

    stage: str
    largest: float
    """The largest absolute difference."""
    relative: float
    """The same over the largest magnitude of the first backend's array."""
    allowed: float | None
    """What `relative` may be; None where it is only reported."""

    @property
    def passed(self) -> bool:
        """Whether it is allowed."""
        return self.allowed is None or self.relative <= self.allowed


@dataclass(frozen=True, slots=True)
class Agreement:
    """Two greedy answers."""

    kind: str
    """'plain' or 'speculative'."""
    compared: int
    """Tokens of the first answer."""
    position: int | None
    """Where they part; None where they are identical."""
    texts: tuple[str, str] | None
    """Each one's token there."""
    gap: float | None
    """The first backend's top-2 logit gap there, decoding plainly."""
    near_tie: bool

    @property
    def passed(self) -> bool:
        """Identical, or parted by rounding."""
        return self.position is None or self.near_tie


@dataclass(frozen=True, slots=True)
class PromptParity:
    """One prompt on two backends, or of two checkpoints on one."""

    prompt: str
    differences: list[Difference]
    answers: list[Agreement]

    @property
    def passed(self) -> bool:
        """Whether every stage and answer is allowed."""
        return all(each.passed for each in self.differences) and all(
            each.passed for each in self.answers
        )


@dataclass(frozen=True, slots=True)
class ParityReport:
    """Port error: the same weights on two backends.  Quantization error: two sets on one."""

    model: str
    draft: str | None
    backends: list[str]
    dtype: str
    quantized: bool
    allowed: float
    near_tie: float
    port: dict[str, list[PromptParity]]
    """By backend, against the first."""
    reference: str | None = None
    quantization: list[PromptParity] | None = None
    """Against the float `reference`, on the first backend; reported, never failed."""

    @property
    def passed(self) -> bool:
        """Whether every prompt passes on every backend."""
        return all(each.passed for prompts in self.port.values() for each in prompts)

    @property
    def exit_code(self) -> int:
        """0 passed, 1 not."""
        return 0 if self.passed else 1

    def as_dict(self) -> dict[str, Any]:
        """Everything, JSON-serializable."""
        return {"passed": self.passed, "exit_code": self.exit_code} | asdict(self)


def parity(
    load: Load,
    directory: Path,
    backends: Sequence[str],
    prompts: Callable[[Engine], Sequence[Prompt]],
    options: Options,
    *,
    reference: Path | None = None,
) -> ParityReport:
    """Compare every backend with the first, and a quantized checkpoint with a float one.

    prompts: chosen once the first engine is there, for only a model with a tower sees images.
    options: how the draft is used, and how many tokens are compared.
    Raises UsageError for fewer than two backends, or a reference for weights that are not packed.
    """
    if len(set(backends)) < max(2, len(backends)):
        raise UsageError(f"--backends {','.join(backends)}: give two or more different ones")
    first, *others = backends
    base = run(load(first, directory), prompts, options)
    if reference and not base.quantized:
        raise UsageError(
            f"--reference {reference}: the model is not quantized, so there is no quantization "
            "error to tell apart; leave --reference out"
        )

    def against(backend: str, where: Path, allowed: float | None) -> list[PromptParity]:
        return _prompts(base, run(load(backend, where), lambda _: base.prompts, options), allowed)

    allowed = RELATIVE[base.dtype]
    return ParityReport(
        model=str(directory),
        draft=base.draft,
        backends=list(backends),
        dtype=base.dtype,
        quantized=base.quantized,
        allowed=allowed,
        near_tie=NEAR_TIES[base.dtype],
        port={name: against(name, directory, allowed) for name in others},
        reference=str(reference) if reference else None,
        quantization=against(first, reference, None) if reference else None,
    )


def _prompts(first: Run, second: Run, allowed: float | None) -> list[PromptParity]:
    """Compare two runs prompt by prompt; differences above `allowed` fail, None only reports."""
    traces = zip(first.prompts, first.traces, second.traces, strict=True)
    tie = NEAR_TIES[first.dtype]
    return [
        PromptParity(
            prompt.name,
            list(differences(one, other, allowed)),
            list(agreements(one, other, tie, first.tokenizer)),
        )
        for prompt, one, other in traces
    ]


def differences(first: Trace, second: Trace, allowed: float | None) -> Iterator[Difference]:
    """Compare two traces' arrays, stage by stage; pixels must be equal."""
    for stage, array in first.stages.items():
        limit = 0.0 if stage == "pixels" else allowed
        yield difference(stage, array, second.stages[stage], limit)


def difference(stage: str, first: Float32, second: Float32, allowed: float | None) -> Difference:
    """Compare two arrays of one shape; what is not finite is as far as float32 goes."""
    apart = np.nan_to_num(np.abs(first - second), nan=np.inf)
    largest = float(apart.max())
    scale = float(np.abs(first).max()) or 1.0
    return Difference(stage, largest, largest / scale, allowed)


def agreements(
    first: Trace, second: Trace, near_tie: float, tokenizer: Tokenizer
) -> Iterator[Agreement]:
    """Compare two traces' answers; `near_tie` in logits."""
    yield _agreement("plain", first.tokens, second.tokens, first.gaps, near_tie, tokenizer)
    one, other = first.speculative, second.speculative
    if one is not None and other is not None:
        yield _agreement("speculative", one, other, first.gaps, near_tie, tokenizer)


def _agreement(
    kind: str,
    first: Sequence[int],
    second: Sequence[int],
    gaps: Sequence[float],
    near_tie: float,
    tokenizer: Tokenizer,
) -> Agreement:
    if first == second:
        return Agreement(kind, len(first), None, None, None, False)
    at = common_prefix(first, second)
    texts = [
        tokenizer.decode(answer[at : at + 1], skip_special=False) for answer in (first, second)
    ]
    gap = gaps[at] if at < len(gaps) else None
    tie = gap is not None and gap <= near_tie
    return Agreement(kind, len(first), at, (texts[0], texts[1]), gap, tie)
