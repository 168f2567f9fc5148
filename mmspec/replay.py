"""One question fed to a target by hand, for measurements that look inside an answer."""

from mmspec.conversation import Chunk, Conversation, Message, render
from mmspec.engine import Engine
from mmspec.sampling import GREEDY
from mmspec.seam import Target
from mmspec.session import Session


def rendered(engine: Engine, message: Message) -> list[Chunk]:
    """The chunks of a conversation that opens with `message`."""
    conversation = Conversation()
    conversation.add(message)
    return render(conversation, engine.target.template, engine.target.tokenizer)


def opened(engine: Engine, message: Message) -> Target:
    """A new greedy sequence of the target, prefilled with `message`."""
    loaded = engine.target
    target = loaded.model.open_target(GREEDY)
    session = Session(target, loaded.views(engine.caption), loaded.view)
    for _ in session.prefill(rendered(engine, message)):
        pass
    return target


def feed(target: Target, token: int) -> None:
    """Append one token as plain decoding does: one row at a time."""
    target.verify(None, ())
    target.commit((), token)
