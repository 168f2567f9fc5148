"""Measures tokens per second of several methods: paired, interleaved, medians and ranges."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import product

from mmspec.chat.engine import Engine
from mmspec.chat.options import Options
from mmspec.diagnostics.prompts import Prompt
from mmspec.diagnostics.single_turn import answer_once
from mmspec.ground.progress import Progress
from mmspec_bench.measure.timing import Figures, Timing, figures, rotate


def time_answer(engine: Engine, options: Options, prompt: Prompt) -> Timing:
    """Answer in a new conversation by this project's loop, timed by its own clocks."""
    answer = answer_once(engine, prompt.message, options)
    statistics, token_ids = answer.statistics, answer.token_ids
    prefill = sum(statistics.seconds[stage] for stage in ("vision", "caption", "prefill"))
    first = sum(each.draft_seconds + each.verify_seconds for each in answer.rounds[:1])
    return Timing(
        [token for token in token_ids if token not in engine.target.stop],
        len(token_ids),
        statistics.rounds,
        len(token_ids),
        statistics.seconds["decode"],
        prefill + first,
        statistics.depth,
        statistics.accepted,
        statistics.peak_memory_bytes,
    )


def measure(
    methods: Mapping[str, Callable[[Prompt], Timing]],
    prompts: Sequence[Prompt],
    repeats: int,
    progress: Progress,
) -> Iterator[dict[str, list[Timing]]]:
    """Answer each prompt with all methods in turn, `repeats` times.

    Yields all timings so far after each turn.  The order rotates, so that no method always follows
    the same other.  Each method's first answer is an uncounted warm-up.
    """
    for name, answer in methods.items():
        progress(f"warming up: {name}")
        answer(prompts[0])
    timings: dict[str, list[Timing]] = {name: [] for name in methods}
    for turn, (repeat, prompt) in enumerate(product(range(repeats), prompts)):
        for name in rotate([*methods], turn):
            progress(f"repetition {repeat + 1} of {repeats}: {prompt.name}, {name}")
            timings[name].append(methods[name](prompt))
        yield {name: [*each] for name, each in timings.items()}


def compare_timings(timings: Mapping[str, Sequence[Timing]]) -> list[Figures]:
    """The figures of all methods, beside the first, which is the plain one."""
    first = next(iter(timings.values()))
    return [figures(name, [*zip(each, first, strict=True)]) for name, each in timings.items()]
