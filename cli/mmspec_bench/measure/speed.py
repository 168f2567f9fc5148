"""Measures tokens per second of several methods: paired, interleaved, medians and ranges."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import product

from mmspec.chat.engine import Engine
from mmspec.chat.options import Options
from mmspec.diagnostics.check import answer_once
from mmspec.diagnostics.prompts import Prompt
from mmspec.ground.progress import Progress
from mmspec_bench.measure.timing import Figures, Timing, figures, rotate


def time_answer(engine: Engine, options: Options, prompt: Prompt) -> Timing:
    """Answer in a new conversation by this project's loop, timed by its own clocks."""
    engine.forget()  # every method pays for images and captions
    answer = answer_once(engine, prompt.message, options)
    statistics, token_ids = answer.statistics, answer.token_ids
    prefill = sum(statistics.seconds[stage] for stage in ("vision", "caption", "prefill"))
    first = sum(round_.draft_seconds + round_.verify_seconds for round_ in answer.rounds[:1])
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
) -> Iterator[list[Figures]]:
    """Answer each prompt with all methods in turn, `repeats` times; the first method is plain.

    Yields the figures so far after each turn.  The order rotates, so that no method always follows
    the same other.  Each method's first answer is an uncounted warm-up.
    """
    for name, answer in methods.items():
        progress(f"warming up: {name}")
        answer(prompts[0])
    timings: dict[str, list[Timing]] = {name: [] for name in methods}
    plain = timings[next(iter(methods))]
    for turn, (repeat, prompt) in enumerate(product(range(repeats), prompts)):
        for name in rotate([*methods], turn):
            progress(f"repetition {repeat + 1} of {repeats}: {prompt.name}, {name}")
            timings[name].append(methods[name](prompt))
        yield [figures(name, [*zip(own, plain, strict=True)]) for name, own in timings.items()]
