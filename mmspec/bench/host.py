"""How much of a round is host work outside model forwards."""

import inspect
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import cycle
from pathlib import Path
from statistics import median
from time import perf_counter
from types import FrameType

from mmspec import loop
from mmspec.bench.prompts import Prompt
from mmspec.chat import Chat, Piece
from mmspec.engine import Engine
from mmspec.heads import forwards
from mmspec.options import Gamma, Options

FORWARDS = ("llama.py", "llava.py", "prompt.py", "mixture.py", "formulas.py", "host.py")
"""Files of a backend that embed, run a decoder, average and choose over the vocabulary, or wait for
results; heads are the core's."""
INTERVAL = 0.0005
"""Seconds between two looks."""
LOOKS = 5000
"""In rounds: a share of 5 % is then known to 0.3 %."""
LONGEST = 15.0
"""Seconds after which fewer looks have to do."""


@dataclass(frozen=True, slots=True)
class HostShare:
    """How much of a round is host work outside model forwards.

    `of_loop` is the loop's part, with commits: a round's time outside `draft` and `verify`.
    `of_round` is all of it: a round's time outside the backend's forwards, from token ids to
    the choice of a token and the wait for it, by looking every half millisecond where the program
    is.  None where the device runs on while the host works, for then the two overlap.
    """

    drafting: str
    gamma: Gamma
    of_loop: float
    of_round: float | None


@dataclass(slots=True)
class Looks:
    """Counts where a program is found."""

    forwards: frozenset[str]
    """Paths of the files that run forwards."""
    rounds: int = 0
    inside: int = 0
    """Of the looks in rounds, those in forwards."""
    ended: float = field(default_factory=lambda: perf_counter() + LONGEST)

    @property
    def enough(self) -> bool:
        """Whether a share can be told, or has to be."""
        return self.rounds >= LOOKS or perf_counter() > self.ended

    @property
    def outside(self) -> float:
        """The share of rounds not spent in forwards."""
        return 1 - self.inside / max(self.rounds, 1)

    def look(self, frame: FrameType | None) -> None:
        """Count one look at a stack, innermost frame first."""
        calls = [(call.f_code.co_filename, call.f_code.co_name) for call in stack(frame)]
        if (loop.__file__, loop.decode.__name__) in calls:
            self.rounds += 1
            self.inside += any(file in self.forwards for file, _ in calls)


def stack(frame: FrameType | None) -> Iterator[FrameType]:
    """A frame and those that called it."""
    while frame:
        yield frame
        frame = frame.f_back


@contextmanager
def looking(look: Callable[[FrameType | None], None]) -> Iterator[None]:
    """Call `look` with the frame that runs, every INTERVAL; of the main thread, and only there."""
    before = signal.signal(signal.SIGALRM, lambda _, frame: look(frame))
    signal.setitimer(signal.ITIMER_REAL, INTERVAL, INTERVAL)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def host_share(engine: Engine, prompts: Sequence[Prompt], options: Options) -> HostShare:
    """Measure the host work of answers, first from outside, then looking inside."""
    chats = [_answered(engine, prompt, options) for prompt in prompts]
    seconds = [chat.answer.statistics.seconds for chat in chats]
    of_loop = median(1 - (each["draft"] + each["verify"]) / each["decode"] for each in seconds)
    synchronous = engine.target.model.device == "cpu"
    of_round = _looked(engine, prompts, options) if synchronous else None
    return HostShare(chats[0].answer.drafting.word, options.gamma, of_loop, of_round)


def _answered(engine: Engine, prompt: Prompt, options: Options) -> Chat:
    chat = engine.chat(options)
    for _ in chat.send(prompt.message):
        pass
    return chat


def _looked(engine: Engine, prompts: Sequence[Prompt], options: Options) -> float:
    backend, heads = Path(inspect.getfile(type(engine.backend))), forwards.__file__
    looks = Looks(frozenset([heads, *(str(backend.parent / name) for name in FORWARDS)]))
    for prompt in cycle(prompts):
        if looks.enough:
            break
        stream = engine.chat(options).send(prompt.message)
        while not isinstance(next(stream), Piece):
            pass
        with looking(looks.look):
            for _ in stream:
                pass
    return looks.outside
