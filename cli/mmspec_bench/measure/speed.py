"""Measures tokens per second of several methods: paired, interleaved, medians and ranges."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product

from mmspec.chat.engine import Engine
from mmspec.chat.options import Gamma, Options
from mmspec.diagnostics.prompts import Prompt
from mmspec.diagnostics.single_turn import answer_once
from mmspec.ground.progress import Progress
from mmspec_bench.measure.timing import Figures, Timing, figures, rotated


@dataclass(frozen=True, slots=True)
class EngineMethod:
    """This project's loop, plain or speculative, timed by its own clocks."""

    name: str
    engine: Engine
    options: Options

    def answer(self, prompt: Prompt) -> Timing:
        """Answer in a new conversation."""
        answer = answer_once(self.engine, prompt.message, self.options)
        statistics, token_ids = answer.statistics, answer.token_ids
        before = sum(statistics.seconds[stage] for stage in ("vision", "caption", "prefill"))
        first = sum(each.draft_seconds + each.verify_seconds for each in answer.rounds[:1])
        return Timing(
            [token for token in token_ids if token not in self.engine.target.stop],
            len(token_ids),
            statistics.rounds,
            len(token_ids),
            statistics.seconds["decode"],
            before + first,
            statistics.depth,
            statistics.accepted,
            statistics.peak_memory_bytes,
        )


def engine_method(engine: Engine, options: Options, drafting: str, gamma: Gamma) -> EngineMethod:
    """The method that drafts `gamma` tokens a round with `drafting`; 'none' is plain."""
    name = "plain" if drafting == "none" else f"{drafting} gamma {gamma}"
    return EngineMethod(name, engine, replace(options, drafting=drafting, gamma=gamma))


def measure(
    methods: Sequence[EngineMethod], prompts: Sequence[Prompt], repeats: int, progress: Progress
) -> list[Figures]:
    """Answer each prompt with all methods in turn, `repeats` times; the first is the plain one.

    The order rotates, so that no method always follows the same other.  Each method's first answer
    is an uncounted warm-up.
    """
    for method in methods:
        progress(f"warming up: {method.name}")
        method.answer(prompts[0])
    timings: dict[str, list[Timing]] = {method.name: [] for method in methods}
    for turn, (repeat, prompt) in enumerate(product(range(repeats), prompts)):
        for method in rotated(methods, turn):
            progress(f"repetition {repeat + 1} of {repeats}: {prompt.name}, {method.name}")
            timings[method.name].append(method.answer(prompt))
    first = timings[methods[0].name]
    return [figures(name, [*zip(every, first, strict=True)]) for name, every in timings.items()]
