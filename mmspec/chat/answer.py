"""An answer: its text and statistics, and the stream in which it arrives."""

from collections.abc import Generator, Iterator
from dataclasses import dataclass, field
from weakref import finalize

from mmspec.chat.session import Prefilled
from mmspec.decoding.statistics import Likelihood, Round, Statistics
from mmspec.drafters.views import PLAIN, Drafting


@dataclass(frozen=True, slots=True)
class Piece:
    """Text that a round adds: of accepted drafted tokens, then of the target's own token."""

    accepted: str
    own: str
    likelihoods: tuple[Likelihood, ...] = ()
    """One for each token, if asked for; none comes before the text of its token begins."""

    @property
    def text(self) -> str:
        """The text of the whole piece."""
        return self.accepted + self.own

    def split(self, length: int) -> tuple["Piece", "Piece"]:
        """The first `length` characters, and the rest."""
        end = max(length - len(self.accepted), 0)
        first = Piece(self.accepted[:length], self.own[:end])
        return first, Piece(self.accepted[length:], self.own[end:])


@dataclass(slots=True)
class Answer:
    """The answer to one question, with its rounds and statistics."""

    text: str = ""
    token_ids: list[int] = field(default_factory=list)
    """All generated token ids, including the stop token."""
    beginning: tuple[int, ...] = ()
    """Tokens of the answer from before it was cut; `text` has theirs too."""
    finish_reason: str = "interrupted"
    """'stop', 'length', 'repetition', or 'interrupted' until the answer is complete."""
    drafting: Drafting = PLAIN
    weights: tuple[float, ...] = ()
    """Weight of each view at the end of the answer, in the order of `drafting.branches`."""
    notes: list[str] = field(default_factory=list)
    """One line for the user on each decision that was made automatically."""
    plain_reason: str | None = None
    """Why this answer ended in plain decoding (gamma 'auto')."""
    rounds: list[Round] = field(default_factory=list)
    statistics: Statistics = field(default_factory=Statistics)
    plain_seconds: float | None = None
    """Median cost of the conversation's latest plain rounds; None before the first."""

    @property
    def plain_estimate(self) -> float | None:
        """Seconds that plain decoding would take for the tokens; None before a plain round."""
        return self.plain_seconds and self.statistics.tokens * self.plain_seconds

    @property
    def speed_up(self) -> float | None:
        """How many times as fast as plain decoding; None without drafts or plain rounds.

        At most the tokens per round: a busy machine made the plain rounds slow if it seems more.
        """
        statistics, cost = self.statistics, sum(round_.cost_seconds for round_ in self.rounds)
        if not (statistics.drafted and cost and self.plain_estimate):
            return None
        return min(self.plain_estimate / cost, statistics.block_efficiency)

    def add(self, round_: Round) -> None:
        """Count a round and append its tokens; the text follows as it is decoded."""
        self.statistics.count(round_)
        self.rounds.append(round_)
        self.token_ids += round_.tokens

    def show(self, piece: Piece) -> Piece:
        """Append the text of `piece`, which is returned."""
        self.text += piece.text
        return piece


Events = Generator[Prefilled | Piece]
"""The prompt's progress, then pieces of text."""


class Stream(Iterator[Prefilled | Piece]):
    """An answer as it is decoded: an iterator over the prompt's progress and pieces of text.

    Dropping it, or leaving its `with` block, interrupts the answer; the text so far stays in the
    conversation.
    """

    def __init__(self, events: Events, answer: Answer) -> None:
        """Called by `Chat`; `events` fill `answer` as they are iterated."""
        self._events = events
        self.answer = answer
        # Also called at the end of the interpreter, while what an interrupt needs is still there.
        self._interrupt = finalize(self, events.close)

    def __next__(self) -> Prefilled | Piece:
        return next(self._events)

    def __enter__(self) -> "Stream":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Interrupt the answer, if it is not complete."""
        self._interrupt()

    def finish(self) -> Answer:
        """Wait for the whole answer."""
        for _ in self:
            pass
        return self.answer

    def texts(self) -> Iterator[str]:
        """Yield the text of each round, without the progress."""
        return (event.text for event in self if isinstance(event, Piece))
