"""One question fed to a target by hand, for measurements that look inside an answer."""

from collections.abc import Sequence

from mmspec.conversation import Chunk, Conversation, Message, Turn, render
from mmspec.engine import Engine
from mmspec.sampling import GREEDY
from mmspec.seam import Target
from mmspec.session import Session


def rendered(engine: Engine, message: Message, before: Sequence[Turn] = ()) -> list[Chunk]:
    """The chunks of a conversation in which `message` follows the turns `before`."""
    conversation = Conversation(turns=list(before))
    conversation.add(message)
    return render(conversation, engine.target.template, engine.target.tokenizer)


def opened(engine: Engine, message: Message, before: Sequence[Turn] = ()) -> Target:
    """A new greedy sequence of the target, prefilled with `message` after the turns `before`."""
    loaded = engine.target
    target = loaded.model.open_target(GREEDY)
    session = Session(target, loaded.views(engine.caption), loaded.view)
    for _ in session.prefill(rendered(engine, message, before)):
        pass
    return target


def feed(target: Target, token: int) -> None:
    """Append one token as plain decoding does: one row at a time."""
    target.verify(None, ())
    target.commit((), token)
