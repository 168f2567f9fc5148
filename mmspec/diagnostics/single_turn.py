"""Prefills or answers a single question, to measure the steps of an answer one by one."""

from collections.abc import Sequence

from mmspec.chat.answer import Answer
from mmspec.chat.engine import Engine
from mmspec.chat.options import Options
from mmspec.chat.session import Session
from mmspec.decoding.contract import Target
from mmspec.decoding.exact_rows import ExactRows
from mmspec.decoding.noise import NO_NOISE
from mmspec.decoding.sampling import GREEDY
from mmspec.prompt.conversation import Conversation, Message, Turn


def prefilled_target(
    engine: Engine, message: Message, before: Sequence[Turn] = (), exact: ExactRows | None = None
) -> Target:
    """A greedy target sequence, prefilled with `message` after the turns `before`."""
    target = engine.target
    sequence = target.model.open_target(GREEDY, exact)
    session = Session(sequence, target.views(engine.caption), target.view)
    conversation = Conversation(turns=[*before, Turn(message)])
    for _ in session.prefill(target.chunks(conversation)):
        pass
    return sequence


def answer_once(engine: Engine, message: Message, options: Options) -> Answer:
    """The whole answer to one message in a new conversation."""
    return engine.chat(options).send(message).finish()


def feed(target: Target, token: int) -> None:
    """Append one token as plain decoding does: one row per forward."""
    target.verify(None, NO_NOISE)
    target.commit((), token)
