"""What a token costs as the context grows.

Tokens are any: costs do not depend on them.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

from mmspec.bench.costs import timed
from mmspec.bench.provenance import provenance
from mmspec.draft import HostDraft
from mmspec.engine import Engine
from mmspec.errors import UsageError
from mmspec.sampling import GREEDY
from mmspec.seam import Drafter, Segment, Target

LENGTHS = (64, 128, 256, 512, 1024, 1536, 2000)
"""Tokens of context that are measured where the model has the positions."""
TOKEN = 5
"""Stands for all: no special token of a Llama vocabulary."""

Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class ContextCost:
    """Median seconds at one length of context."""

    tokens: int
    prefill: float
    """Per token appended since the length before."""
    step: float
    """A target forward over one row: plain decoding's token."""
    block: float
    """A target forward over gamma + 1 rows."""
    draft: float | None
    """A token drafted from one branch; None past the draft's positions, or without a draft."""


@dataclass(frozen=True, slots=True)
class ContextReport:
    """What was measured, on what."""

    model: str
    draft: str | None
    device: str
    dtype: str
    quantize: str
    gamma: int
    costs: list[ContextCost]
    provenance: dict[str, Any]

    def as_dict(self) -> dict[str, Any]:
        """Everything, JSON-serializable."""
        return asdict(self)


def context(
    engine: Engine,
    lengths: Sequence[int],
    gamma: int,
    *,
    passes: int = 3,
    repeats: int = 7,
    progress: Progress,
) -> ContextReport:
    """Measure at each length, shortest first, in `passes` from an empty context.

    lengths: without any, those of LENGTHS for which there is room.  Raises UsageError for lengths
    that the target has not the positions for.
    """
    loaded = engine.target.model
    most = loaded.config.text.max_position_embeddings - gamma - 1
    wanted = sorted(set(lengths) or {each for each in LENGTHS if each <= most})
    if wanted[-1] > most:
        raise UsageError(f"--lengths {wanted[-1]}: {engine.target.name} has room for {most}")
    target, drafter = loaded.open_target(GREEDY), _drafter(engine)
    seen: dict[int, list[ContextCost]] = defaultdict(list)
    for turn in range(passes + 1):
        target.rewind(0)
        for before, length in zip([0, *wanted], wanted, strict=False):
            progress(f"pass {turn} of {passes}: {length} tokens")
            fits = drafter if length + gamma <= _room(engine) else None
            seen[length].append(_cost(engine, target, fits, (before, length), gamma, repeats))
        if drafter:
            drafter.rewind(0)
    return ContextReport(
        engine.target.name,
        engine.draft.name if engine.draft else None,
        loaded.device,
        loaded.dtype,
        loaded.quantize,
        gamma,
        [_middle(every[1:]) for every in seen.values()],
        provenance([engine.backend]),
    )


def _drafter(engine: Engine) -> Drafter | None:
    if engine.draft is None:
        return None
    vocabulary = engine.target.model.config.text.vocab_size
    return engine.draft.model.open_drafter(1, vocabulary, GREEDY)


def _room(engine: Engine) -> int:
    return engine.draft.model.config.text.max_position_embeddings if engine.draft else 0


def _cost(
    engine: Engine,
    target: Target,
    drafter: Drafter | None,
    span: tuple[int, int],
    gamma: int,
    repeats: int,
) -> ContextCost:
    """Lengthen the context, then time what a round does there; nothing is committed."""
    before, length = span
    segment, block = Segment([TOKEN] * (length - before)), HostDraft([TOKEN] * gamma)
    prefill = timed(engine, lambda: target.extend(segment))
    if drafter:
        drafter.extend([Segment([TOKEN] * (length - drafter.length))])
    steps = [timed(engine, lambda: target.verify(None, ())) for _ in range(repeats)]
    blocks = [timed(engine, lambda: target.verify(block, ())) for _ in range(repeats)]
    return ContextCost(
        length,
        prefill / (length - before),
        median(steps),
        median(blocks),
        median(_drafting(engine, drafter, gamma, repeats)) if drafter else None,
    )


def _drafting(engine: Engine, drafter: Drafter, gamma: int, repeats: int) -> Iterator[float]:
    for _ in range(repeats):
        yield timed(engine, lambda: drafter.draft(gamma, (1.0,), ())) / gamma


def _middle(every: Sequence[ContextCost]) -> ContextCost:
    drafts = [each.draft for each in every if each.draft is not None]
    return ContextCost(
        every[0].tokens,
        median(each.prefill for each in every),
        median(each.step for each in every),
        median(each.block for each in every),
        median(drafts) if drafts else None,
    )
