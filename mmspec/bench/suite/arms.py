"""One method's answers to one sample, timed as a person would wait for them.

Every sample opens a new conversation, and nothing is kept of the images: what one method has
computed of a picture, its vision features and its caption, the next computes again.  Within a
conversation the caches stay, as in a chat: a later turn pays for what is new.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from time import perf_counter

from mmspec.bench.suite.items import Question
from mmspec.bench.suite.methods import Method, method_options
from mmspec.chat import Answer, Piece
from mmspec.conversation import Turn
from mmspec.engine import Engine
from mmspec.errors import ContextError, UsageError
from mmspec.options import Options
from mmspec.session import Prefilled


@dataclass(frozen=True, slots=True)
class Said:
    """One answer, the turns it followed and when its first token was there."""

    answer: Answer
    before: tuple[Turn, ...]
    first_token_seconds: float
    refused: str = ""
    """Why there is no answer: a probe's model has no room for the prompt."""


@dataclass(frozen=True, slots=True)
class MethodArm:
    """A method with the models it asks."""

    method: Method
    engine: Engine
    options: Options

    def answers(self, questions: Sequence[Question]) -> Iterator[Said]:
        """Hold the conversation, from nothing.

        Raises ContextError where the target has no room for a prompt; where a probe's model has
        none, that turn and the following are refused.
        """
        self.engine.forget()
        chat = self.engine.chat(self.options)
        refused = ""
        for question in questions:
            shown = question.blank if self.method.blank else question
            before, first = tuple(chat.conversation.turns), 0.0
            try:
                first = 0.0 if refused else _finished(chat.send(shown.message))
            except ContextError as error:
                if not self.method.probe:
                    raise
                refused = str(error)
            yield Said(Answer() if refused else chat.answer, before, first, refused)


def _finished(answering: Iterable[Prefilled | Piece]) -> float:
    """Run an answer to its end; returns the seconds to its first text."""
    started, first = perf_counter(), 0.0
    for item in answering:
        if isinstance(item, Piece) and not first:
            first = perf_counter() - started
    return first


def open_arm(method: Method, engine: Engine, options: Options) -> MethodArm:
    """The arm of a method; raises UsageError where the models cannot do it."""
    asked = _draft_alone(engine) if method.of_draft else engine
    arm = MethodArm(method, asked, method_options(method, options))
    asked.chat(arm.options)
    return arm


def _draft_alone(engine: Engine) -> Engine:
    draft = engine.draft
    if draft is None or draft.features is None:
        raise UsageError("--methods: draft asks the draft about images: load one that sees them")
    return Engine(engine.backend, draft, None, None)
