"""Tokens per second of several ways of answering: paired, interleaved, medians and ranges."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any, TypeVar

from mmspec.bench.arms import Arm, Timing, chosen, drafting_arm
from mmspec.bench.costs import Costs, costs
from mmspec.bench.host import HostShare, host_share
from mmspec.bench.prompts import Prompt
from mmspec.bench.provenance import provenance
from mmspec.bench.refit import RefitCost, refit_cost
from mmspec.engine import Engine
from mmspec.options import Gamma, Options

GAMMAS = (1, 2, 3, 4, 5, 6, 8)
"""Draft lengths that a search tries."""

Progress = Callable[[str], None]

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Spread:
    """The median of some measurements and their range."""

    median: float
    least: float
    most: float

    @classmethod
    def of(cls, values: Sequence[float]) -> "Spread":
        """Of at least one value."""
        return cls(median(values), min(values), max(values))

    def text(self, digits: int) -> str:
        """Such as `2.10 [1.95..2.30]`."""
        return f"{self.median:.{digits}f} [{self.least:.{digits}f}..{self.most:.{digits}f}]"


@dataclass(frozen=True, slots=True)
class ArmResult:
    """One arm over all prompts and repetitions."""

    name: str
    tokens_per_second: Spread
    speed_up: Spread
    """Over the first arm's answer to the same prompt in the same repetition."""
    block_efficiency: float
    """Tokens per target forward, pooled."""
    acceptance_rate: float
    identical: bool
    """Whether every answer is the first arm's, token for token."""
    peak_memory_bytes: int


@dataclass(frozen=True, slots=True)
class SpeedReport:
    """What was measured, on what and how."""

    model: str
    draft: str | None
    device: str
    dtype: str
    quantize: str
    prompts: int
    repeats: int
    arms: list[ArmResult]
    costs: Costs | None
    host: list[HostShare]
    refit: RefitCost | None
    """Of four branches, where the draft sees images."""
    provenance: dict[str, Any]

    def as_dict(self) -> dict[str, Any]:
        """Everything, JSON-serializable."""
        ratios = self.costs.ratios if self.costs else {}
        return asdict(self) | {"ratios": ratios, "refit": self.refit and self.refit.as_dict()}


def measure(
    arms: Sequence[Arm], prompts: Sequence[Prompt], repeats: int, progress: Progress
) -> list[ArmResult]:
    """Let all arms answer each prompt in turn, `repeats` times; the first is the plain one.

    The order rotates, so that no arm always follows the same other.  A first answer of every arm
    warms caches up and is not counted.
    """
    for arm in arms:
        progress(f"warming up: {arm.name}")
        arm.answer(prompts[0])
    timings: dict[str, list[Timing]] = {arm.name: [] for arm in arms}
    for turn, (repeat, prompt) in enumerate((r, p) for r in range(repeats) for p in prompts):
        for arm in rotated(arms, turn):
            progress(f"repetition {repeat + 1} of {repeats}: {prompt.name}, {arm.name}")
            timings[arm.name].append(arm.answer(prompt))
    first = timings[arms[0].name]
    return [summary(name, every, first) for name, every in timings.items()]


def rotated(arms: Sequence[T], by: int) -> list[T]:
    """The arms, starting with another one each time."""
    start = by % len(arms)
    return [*arms[start:], *arms[:start]]


def summary(name: str, timings: Sequence[Timing], first: Sequence[Timing]) -> ArmResult:
    """One arm's timings beside the first arm's, paired in order."""
    pairs = list(zip(timings, first, strict=True))
    depth = sum(each.depth for each in timings)
    return ArmResult(
        name,
        Spread.of([each.tokens_per_second for each in timings]),
        Spread.of([each.tokens_per_second / plain.tokens_per_second for each, plain in pairs]),
        sum(len(each.tokens) for each in timings) / sum(each.rounds for each in timings),
        sum(each.accepted for each in timings) / depth if depth else 0.0,
        all(each.tokens == plain.tokens for each, plain in pairs),
        max(each.peak_memory_bytes for each in timings),
    )


def best_gamma(
    engine: Engine,
    options: Options,
    word: str,
    gammas: Sequence[Gamma],
    prompts: Sequence[Prompt],
    progress: Progress,
) -> Gamma:
    """The draft length with the most tokens per second over `prompts`.

    Searched apart from the measurement, so that the best is not the luckiest.
    """
    rates: dict[Gamma, float] = {}
    for gamma in gammas if len(gammas) > 1 else ():
        arm = drafting_arm(engine, options, word, gamma)
        progress(f"searching gamma: {arm.name}")
        timings = [arm.answer(prompt) for prompt in prompts]
        rates[gamma] = sum(t.timed_tokens for t in timings) / sum(t.seconds for t in timings)
    return max(rates, key=lambda gamma: rates[gamma]) if rates else gammas[0]


def planned(
    engine: Engine,
    options: Options,
    words: Sequence[str],
    gammas: Sequence[Gamma],
    prompts: Sequence[Prompt],
    progress: Progress,
) -> Iterator[tuple[str, Gamma]]:
    """Each drafting with the draft length to measure it at."""
    for word in words:
        yield word, best_gamma(engine, options, word, gammas, prompts, progress)


def speed(
    engine: Engine,
    prompts: Sequence[Prompt],
    options: Options,
    *,
    words: Sequence[str],
    gammas: Sequence[Gamma],
    repeats: int,
    others: Sequence[Engine] = (),
    baselines: Sequence[Arm] = (),
    progress: Progress,
) -> SpeedReport:
    """Measure plain decoding and each drafting at its best draft length.

    gammas: one to take it, several to search among.  others: the same checkpoint on other
    backends, whose answers are measured among this one's.  baselines: other projects' loops.
    """
    plan = list(planned(engine, options, words, gammas, prompts[:2], progress))
    arms = [drafting_arm(engine, options, word, gamma) for word, gamma in [("none", 1), *plan]]
    for other in others:
        prefix = f"{other.backend.name}: "
        arms += [drafting_arm(other, options, *each, prefix) for each in [("none", 1), *plan]]
    results = measure([*arms, *baselines], prompts, repeats, progress)
    host = [host_share(engine, prompts, chosen(options, *each)) for each in plan]
    sees = engine.draft is not None and engine.draft.model.config.vision is not None
    four = sees and bool(prompts[0].message.pictures)
    return SpeedReport(
        model=engine.target.name,
        draft=engine.drafts.name if engine.drafts else None,
        device=engine.target.model.device,
        dtype=engine.target.model.dtype,
        quantize=engine.target.model.quantize,
        prompts=len(prompts),
        repeats=repeats,
        arms=results,
        costs=costs(engine, prompts[0], options) if engine.draft else None,
        host=host,
        refit=refit_cost(engine, prompts[0], options, "MTCP") if four else None,
        provenance=provenance([each.backend for each in (engine, *others)]),
    )
