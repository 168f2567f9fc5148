"""Measures the cost of a token by context length.

The context is one token repeated: costs do not depend on which.
"""

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import astuple, dataclass
from statistics import median
from typing import Any

from mmspec.chat.engine import Engine
from mmspec.decoding.contract import Drafter, Segment, Target
from mmspec.decoding.draft import HostDraft
from mmspec.decoding.exact_rows import ExactFields
from mmspec.decoding.noise import NO_NOISE
from mmspec.decoding.sampling import GREEDY
from mmspec.diagnostics.provenance import provenance
from mmspec.ground.errors import UsageError
from mmspec_bench import Progress
from mmspec_bench.measure.calibrate import TOKEN
from mmspec_bench.measure.costs import median_seconds, seconds_of

LENGTHS = (64, 128, 256, 512, 1024, 1536, 2000)
"""Lengths of context to measure, in tokens, up to the model's number of positions."""


@dataclass(frozen=True, slots=True)
class ContextCost:
    """Median seconds at one length of context."""

    tokens: int
    prefill: float
    """Seconds per prompt token, for the tokens appended since the previous length."""
    step: float
    """Seconds of a target forward over one row, which is a token of plain decoding."""
    block: float
    """Seconds of a target forward over gamma + 1 rows."""
    draft: float | None
    """Seconds of a token drafted from one branch; None without a draft or past its positions."""


@dataclass(frozen=True, slots=True)
class ContextReport(ExactFields):
    """The costs at all lengths of context, with models and provenance."""

    model: str
    draft: str | None
    device: str
    dtype: str
    quantize: str
    gamma: int
    costs: list[ContextCost]
    provenance: dict[str, Any]


def context(
    engine: Engine,
    lengths: Sequence[int],
    gamma: int,
    exact: str = "auto",
    *,
    passes: int = 3,
    repeats: int = 7,
    progress: Progress,
) -> ContextReport:
    """Measure the costs at each length, shortest first, in `passes` that start without context.

    lengths: empty means those of LENGTHS that the models have positions for. exact: a mode of
    `--exact`. Raises UsageError for lengths beyond the target's positions.
    """
    loaded = engine.target.model
    most = loaded.config.text.max_position_embeddings - gamma - 1
    lengths = sorted(set(lengths) or {length for length in LENGTHS if length <= most})
    if lengths[-1] > most:
        raise UsageError(f"--lengths {lengths[-1]}: {engine.target.name} has room for {most}")
    target, drafter, room = loaded.open_target(GREEDY, engine.exact_rows(exact)), None, 0
    if engine.draft:
        drafting, vocabulary = engine.draft.model, loaded.config.text.vocab_size
        drafter = drafting.open_drafter(1, vocabulary, GREEDY)
        room = drafting.config.text.max_position_embeddings
    costs: dict[int, list[ContextCost]] = defaultdict(list)
    for turn in range(passes + 1):
        target.rewind(0)
        for before, length in zip([0, *lengths], lengths, strict=False):
            progress(f"pass {turn} of {passes}: {length} tokens")
            fits = drafter if length + gamma <= room else None
            costs[length].append(_cost(engine, target, fits, (before, length), gamma, repeats))
        if drafter:
            drafter.rewind(0)
    return ContextReport(
        engine.target.name,
        engine.draft.name if engine.draft else None,
        loaded.device,
        loaded.dtype,
        loaded.quantize,
        gamma,
        [_medians(passes_of[1:]) for passes_of in costs.values()],
        provenance([engine.backend]),
        **engine.exact_fields(exact),
    )


def _cost(
    engine: Engine,
    target: Target,
    drafter: Drafter | None,
    span: tuple[int, int],
    gamma: int,
    repeats: int,
) -> ContextCost:
    """Extend the context from span[0] to span[1] tokens, then time the parts of a round there."""
    before, length = span
    segment, block = Segment([[TOKEN] * (length - before)]), HostDraft([TOKEN] * gamma)
    prefill = seconds_of(engine, lambda: target.extend(segment))
    if drafter:
        drafter.extend([Segment([[TOKEN] * (length - drafter.length)])])

    def timed(call: Callable[[], object]) -> float:
        return median_seconds(engine, call, repeats)

    return ContextCost(
        length,
        prefill / (length - before),
        timed(lambda: target.verify(None, NO_NOISE)),
        timed(lambda: target.verify(block, NO_NOISE)),
        timed(lambda: drafter.draft(gamma, (1.0,), NO_NOISE)) / gamma if drafter else None,
    )


def _medians(costs: Sequence[ContextCost]) -> ContextCost:
    """The median of each part over the passes, all of which have the same parts."""
    tokens, *parts = zip(*map(astuple, costs), strict=True)
    medians: list[Any] = [None if None in part else median(part) for part in parts]
    return ContextCost(tokens[0], *medians)
