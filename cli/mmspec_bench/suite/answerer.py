"""Times one method's answers to one sample.

Every sample opens a new conversation, without vision features and captions computed by other
methods.  Within a conversation the caches stay, as in a chat: a later turn computes only what is
new.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from time import perf_counter

from mmspec.chat.chat import Answer, Piece
from mmspec.chat.engine import Engine
from mmspec.chat.options import Options
from mmspec.chat.session import Prefilled
from mmspec.errors import ContextError, UsageError
from mmspec.prompt.conversation import Turn
from mmspec_bench.suite.methods import Method
from mmspec_bench.suite.samples import Question


@dataclass(frozen=True, slots=True)
class TimedAnswer:
    """One answer, the turns before it, and the seconds to its first token."""

    question: Question
    images: int
    """Number of images in the conversation so far."""
    answer: Answer
    before: tuple[Turn, ...]
    first_token_seconds: float
    refusal: str = ""
    """Why there is no answer: the prompt exceeds the probe's model; else empty."""


@dataclass(frozen=True, slots=True)
class Answerer:
    """A method and the models that it uses."""

    method: Method
    engine: Engine
    options: Options

    def answers(self, questions: Sequence[Question]) -> Iterator[TimedAnswer]:
        """Answer all questions of a new conversation.

        Raises ContextError if a prompt does not fit the target.  If it does not fit the model of a
        probe, this turn and the following ones are refused.
        """
        self.engine.forget()
        chat = self.engine.chat(self.options)
        refusal, images = "", 0
        for question in questions:
            message = question.blank.message if self.method.blank else question.message
            images += len(message.pictures)
            before, seconds = tuple(chat.conversation.turns), 0.0
            try:
                seconds = 0.0 if refusal else _first_token_seconds(chat.send(message))
            except ContextError as error:
                if not self.method.probe:
                    raise
                refusal = str(error)
            answer = Answer() if refusal else chat.answer
            yield TimedAnswer(question, images, answer, before, seconds, refusal)


def _first_token_seconds(pieces: Iterable[Prefilled | Piece]) -> float:
    """Run an answer to its end; returns the seconds to its first text."""
    start, first = perf_counter(), 0.0
    for piece in pieces:
        if isinstance(piece, Piece) and not first:
            first = perf_counter() - start
    return first


def open_answerer(method: Method, engine: Engine, options: Options) -> Answerer:
    """The answerer of a method; raises UsageError if the models cannot do it."""
    models = _draft_alone(engine) if method.of_draft else engine
    answerer = Answerer(method, models, method.options(options))
    models.chat(answerer.options)
    return answerer


def _draft_alone(engine: Engine) -> Engine:
    draft = engine.draft
    if draft is None or draft.features is None:
        raise UsageError("--methods: draft asks the draft about images: load one that sees them")
    return Engine(engine.backend, draft, None, None)
