"""Whether other programs disturbed a measurement, by the processor's time and a repetition."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from time import perf_counter, process_time

LEAST_SHARE = 0.9
"""Least processor seconds per second: a process that computes without pause has at least 1."""
MOST_RATIO = 1.3
"""Most that the longer of two equal measurements may take, divided by the shorter."""
MOMENT = 0.5
"""Seconds that are computed to find out whether the machine is busy already."""
REMEDY = "end other programs that compute, or take fewer `threads`, and run again"


@dataclass(frozen=True, slots=True)
class Steadiness:
    """How much a measurement on a CPU computed, and how well two halves of it agree."""

    share: float | None
    """Processor seconds per second; None on an accelerator, for which a process may wait."""
    ratio: float = 1.0
    """The longer of two times of one thing, divided by the shorter; a fifth of all exceed it."""

    @property
    def problem(self) -> str:
        """Why the times are not those of a machine at rest, and what to do; '' if they may be."""
        if self.share is not None and self.share < LEAST_SHARE:
            lost = f"{1 - self.share:.0%} of the time other programs had the processor"
            return f"{lost}: {REMEDY}"
        if self.ratio > MOST_RATIO:
            return f"the same steps took {self.ratio:.1f} times as long once as again: {REMEDY}"
        return ""


def busy_already() -> str:
    """Why a measurement on a CPU should not begin now, and what to do; '' if it may."""
    start, share = perf_counter(), measure_share("cpu")
    while perf_counter() - start < MOMENT:
        pass
    return Steadiness(share()).problem


def watch(device: str) -> Callable[[], str]:
    """Begin to watch a measurement on a device; the result is a line if programs disturbed it."""
    share = measure_share(device)

    def line() -> str:
        problem = Steadiness(share()).problem
        return f"The machine was busy: {problem}." if problem else ""

    return line


def measure_share(device: str) -> Callable[[], float | None]:
    """Begin to measure a `Steadiness.share`, whose value so far the result returns."""
    start = perf_counter(), process_time()

    def share() -> float | None:
        seconds, processor = perf_counter() - start[0], process_time() - start[1]
        return processor / max(seconds, 1e-9) if device == "cpu" else None

    return share


def usual_ratio(pairs: Iterable[tuple[float, float]]) -> float:
    """The ratio of the longer to the shorter time that a fifth of the pairs exceed."""
    ratios = sorted(max(pair) / min(pair) for pair in pairs if min(pair) > 0)
    return ratios[len(ratios) * 4 // 5] if ratios else 1.0
