"""Methods of answering a prompt, timed in the same way."""

from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Protocol

from mmspec.chat.engine import Engine
from mmspec.chat.options import Gamma, Options
from mmspec.diagnostics.prompts import Prompt
from mmspec.diagnostics.single_turn import answer_once
from mmspec_bench.compare.questions import question_of
from mmspec_bench.compare.script_io import Clock, Program


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


class TimedMethod(Protocol):
    """A method of answering prompts."""

    @property
    def name(self) -> str:
        """The method's name in reports."""
        ...

    def answer(self, prompt: Prompt) -> Timing:
        """Answer `prompt` greedily, with nothing cached from earlier prompts."""
        ...


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
            [token for token in token_ids if token not in self.engine.stop],
            len(token_ids),
            statistics.seconds["decode"],
            statistics.rounds,
            statistics.depth,
            statistics.accepted,
            statistics.peak_memory_bytes,
        )


def with_drafting(options: Options, drafting: str, gamma: Gamma) -> Options:
    """The options with another drafting; weights are kept only if the letters are."""
    weights = options.weights if drafting == options.drafting else ()
    return replace(options, drafting=drafting, gamma=gamma, weights=weights)


def engine_method(
    engine: Engine, options: Options, drafting: str, gamma: Gamma, prefix: str = ""
) -> EngineMethod:
    """The method that drafts `gamma` tokens a round with `drafting`; 'none' is plain."""
    name = "plain" if drafting == "none" else f"{drafting} gamma {gamma}"
    return EngineMethod(prefix + name, engine, with_drafting(options, drafting, gamma))


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
