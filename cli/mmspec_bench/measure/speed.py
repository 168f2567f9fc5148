"""Measures tokens per second of several methods: paired, interleaved, medians and ranges."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

from mmspec.chat.engine import Engine
from mmspec.chat.options import Gamma, Options
from mmspec.decoding.exact_rows import ExactFields
from mmspec.diagnostics.prompts import Prompt
from mmspec.diagnostics.provenance import provenance
from mmspec.diagnostics.single_turn import answer_once
from mmspec.ground.errors import UsageError
from mmspec.prompt.clips import Clip
from mmspec.prompt.images import Picture
from mmspec_bench import Progress
from mmspec_bench.measure.costs import Costs, costs
from mmspec_bench.measure.exact_price import ExactPrice, exact_prices
from mmspec_bench.script_io import Clock, Program, Question

GAMMAS = (1, 2, 3, 4, 5, 6, 8)
"""Draft lengths, in tokens, that a search for the fastest one tries."""
PRICE_REPEATS = 20
"""Forwards of each kind whose median is the price of exact decoding."""
SEARCHED = 2
"""Number of prompts in a search for the best draft length."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Spread:
    """The median and the range of some measurements."""

    median: float
    least: float
    most: float

    @classmethod
    def of(cls, values: Sequence[float]) -> "Spread":
        """Median and range of `values`, of which there is at least one."""
        return cls(median(values), min(values), max(values))

    def text(self, digits: int) -> str:
        """The spread as text, with `digits` decimals: `2.10 [1.95..2.30]`, `2.10` if all agree."""
        middle = f"{self.median:.{digits}f}"
        if self.least == self.most:
            return middle
        return f"{middle} [{self.least:.{digits}f}..{self.most:.{digits}f}]"


@dataclass(frozen=True, slots=True)
class Timing:
    """One answer and the time that it took."""

    tokens: list[int]
    """Token ids of the answer, without a stop token."""
    timed_tokens: int
    """Number of tokens computed in `seconds`, including a stop token."""
    seconds: float
    """Seconds of decoding, not counting vision, captions and prefill."""
    rounds: int = 0
    """Number of target forwards in `seconds`."""
    depth: int = 0
    """Drafted tokens that could have been accepted: one per level of a tree."""
    accepted: int = 0
    peak_memory_bytes: int = 0

    @property
    def tokens_per_second(self) -> float:
        """Number of decoded tokens divided by the seconds of decoding."""
        return self.timed_tokens / self.seconds


@dataclass(frozen=True, slots=True)
class EngineMethod:
    """This project's loop, plain or speculative."""

    name: str
    engine: Engine
    options: Options

    def answer(self, prompt: Prompt) -> Timing:
        """Answer in a new conversation, timed by the loop's own clocks."""
        answer = answer_once(self.engine, prompt.message, self.options)
        statistics, token_ids = answer.statistics, answer.token_ids
        return Timing(
            [token for token in token_ids if token not in self.engine.target.stop],
            len(token_ids),
            statistics.seconds["decode"],
            statistics.rounds,
            statistics.depth,
            statistics.accepted,
            statistics.peak_memory_bytes,
        )


def engine_method(
    engine: Engine, options: Options, drafting: str, gamma: Gamma, prefix: str = ""
) -> EngineMethod:
    """The method that drafts `gamma` tokens a round with `drafting`; 'none' is plain.

    The weights in `options` apply only if `drafting` is theirs.  prefix: start of the name.
    """
    name = "plain" if drafting == "none" else f"{drafting} gamma {gamma}"
    weights = options.weights if drafting == options.drafting else ()
    own = replace(options, drafting=drafting, gamma=gamma, weights=weights)
    return EngineMethod(prefix + name, engine, own)


@dataclass(frozen=True, slots=True)
class ProgramMethod:
    """Another project's program on the same checkpoint."""

    name: str
    program: Program

    def answer(self, prompt: Prompt) -> Timing:
        """Answer, timed from the first token (the end of the prefill) to the last."""
        with TemporaryDirectory() as folder:
            question, clock = question_of(prompt, Path(folder)), Clock()
            tokens, _ = self.program.answer(question, clock)
        (first, start), (last, end) = clock.events[0], clock.events[-1]
        if last == first:
            return Timing(tokens, last, end, 1)
        return Timing(tokens, last - first, end - start, len(clock.events) - 1)


def question_of(prompt: Prompt, folder: Path) -> Question:
    """The prompt's parts in order; its pictures are written as files to `folder`."""
    return [_part(part, folder) for part in prompt.message.parts]


def _part(part: str | Picture, folder: Path) -> dict[str, str]:
    if isinstance(part, str):
        return {"text": part}
    if isinstance(part, Clip):
        raise UsageError(f"{part.name}: programs are compared on images, not on clips")
    file = folder / f"{part.digest}.png"
    part.image.save(file)
    return {"image": str(file)}


TimedMethod = EngineMethod | ProgramMethod
"""A method of answering prompts greedily, with nothing cached from earlier prompts."""


@dataclass(frozen=True, slots=True)
class MethodSpeed:
    """One method's results over all prompts and repetitions."""

    name: str
    tokens_per_second: Spread
    speed_up: Spread
    """Ratio of the method's speed to the first method's on the same prompt and repetition."""
    speed_up_overall: float
    """The same ratio of all tokens divided by all seconds: long answers count more."""
    block_efficiency: float
    """Tokens per target forward, over all answers together."""
    acceptance_rate: float
    identical: bool
    """True if every answer equals the first method's, token for token."""
    peak_memory_bytes: int


@dataclass(frozen=True, slots=True)
class SpeedReport(ExactFields):
    """The results of all methods, with models, prompts and provenance."""

    model: str
    draft: str | None
    device: str
    dtype: str
    quantize: str
    prompts: int
    repeats: int
    methods: list[MethodSpeed]
    costs: Costs | None
    prices: list[ExactPrice]
    """What exact decoding costs; empty unless both kinds were asked for."""
    provenance: dict[str, Any]

    def as_dict(self) -> dict[str, Any]:
        """The report as a JSON-serializable object."""
        return asdict(self) | {"ratios": self.costs.ratios if self.costs else {}}


def measure(
    methods: Sequence[TimedMethod], prompts: Sequence[Prompt], repeats: int, progress: Progress
) -> list[MethodSpeed]:
    """Answer each prompt with all methods in turn, `repeats` times; the first is the plain one.

    The order rotates, so that no method always follows the same other.  Each method's first answer
    is an uncounted warm-up.
    """
    for method in methods:
        progress(f"warming up: {method.name}")
        method.answer(prompts[0])
    timings: dict[str, list[Timing]] = {method.name: [] for method in methods}
    for turn, (repeat, prompt) in enumerate((r, p) for r in range(repeats) for p in prompts):
        for method in rotated(methods, turn):
            progress(f"repetition {repeat + 1} of {repeats}: {prompt.name}, {method.name}")
            timings[method.name].append(method.answer(prompt))
    first = timings[methods[0].name]
    return [summary(name, answers, first) for name, answers in timings.items()]


def rotated(items: Sequence[T], by: int) -> list[T]:
    """The items, starting at index `by`, wrapped around."""
    start = by % len(items)
    return [*items[start:], *items[:start]]


def summary(name: str, timings: Sequence[Timing], first: Sequence[Timing]) -> MethodSpeed:
    """Compare one method's timings with the first method's, paired in order."""
    pairs = list(zip(timings, first, strict=True))
    depth = sum(timing.depth for timing in timings)
    return MethodSpeed(
        name,
        Spread.of([timing.tokens_per_second for timing in timings]),
        Spread.of([timing.tokens_per_second / plain.tokens_per_second for timing, plain in pairs]),
        overall(timings) / overall(first),
        sum(timing.timed_tokens for timing in timings) / sum(timing.rounds for timing in timings),
        sum(timing.accepted for timing in timings) / depth if depth else 0.0,
        all(timing.tokens == plain.tokens for timing, plain in pairs),
        max(timing.peak_memory_bytes for timing in timings),
    )


def overall(timings: Sequence[Timing]) -> float:
    """All tokens divided by all seconds."""
    return sum(t.timed_tokens for t in timings) / sum(t.seconds for t in timings)


def best_gamma(
    engine: Engine,
    options: Options,
    drafting: str,
    gammas: Sequence[Gamma],
    prompts: Sequence[Prompt],
    progress: Progress,
) -> Gamma:
    """The draft length with the most tokens per second over `prompts`.

    The search is separate from the measurement, so that chance does not favour the best length.
    """
    rates: dict[Gamma, float] = {}
    for gamma in gammas if len(gammas) > 1 else ():
        method = engine_method(engine, options, drafting, gamma)
        progress(f"searching gamma: {method.name}")
        rates[gamma] = overall([method.answer(prompt) for prompt in prompts])
    return max(rates, key=lambda gamma: rates[gamma]) if rates else gammas[0]


def speed(
    engine: Engine,
    prompts: Sequence[Prompt],
    options: Options,
    *,
    draftings: Sequence[str],
    gammas: Sequence[Gamma],
    repeats: int,
    every: bool = False,
    others: Sequence[Engine] = (),
    programs: Sequence[TimedMethod] = (),
    priced: bool = False,
    progress: Progress,
) -> SpeedReport:
    """Measure plain decoding and each drafting at its best draft length.

    gammas: one to use it, several to search among.  every: measure each of them instead.  others:
    the same checkpoint on other backends, measured interleaved with this one.  programs: other
    projects' programs, measured likewise.
    priced: also time forwards with exact rows and without, in turns.
    """
    plan: list[tuple[str, Gamma]] = [("none", 1)]
    for drafting in draftings:
        searched = prompts[:SEARCHED]
        search = partial(best_gamma, engine, options, drafting, gammas, searched, progress)
        plan += [(drafting, gamma) for gamma in (gammas if every else [search()])]
    methods: list[TimedMethod] = [engine_method(engine, options, *step) for step in plan]
    for other in others:
        prefix = f"{other.backend.name}: "
        methods += [engine_method(other, options, *step, prefix) for step in plan]
    return SpeedReport(
        model=engine.target.name,
        draft=engine.drafts.name if engine.drafts else None,
        device=engine.target.model.device,
        dtype=engine.target.model.dtype,
        quantize=engine.target.model.quantize,
        prompts=len(prompts),
        repeats=repeats,
        methods=measure([*methods, *programs], prompts, repeats, progress),
        costs=costs(engine, prompts[0], options) if engine.draft else None,
        prices=exact_prices(engine, prompts[0], PRICE_REPEATS) if priced else [],
        provenance=provenance([loaded.backend for loaded in (engine, *others)]),
        **engine.exact_fields(options.exact),
    )
