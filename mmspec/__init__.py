"""Lossless speculative decoding for multimodal models.

`load` a target and a draft, open a chat, stream its answers:

    engine = mmspec.load("mini")
    chat = engine.chat()
    answer = chat.reply("What is in this picture?", [mmspec.open_picture("photo.png")])
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mmspec.adaptive import Adaptation as Adaptation
    from mmspec.chat import Answer as Answer
    from mmspec.chat import Chat as Chat
    from mmspec.chat import Piece as Piece
    from mmspec.conversation import Conversation as Conversation
    from mmspec.conversation import Message as Message
    from mmspec.engine import Engine as Engine
    from mmspec.engine import load as load
    from mmspec.errors import MmspecError as MmspecError
    from mmspec.images import Picture as Picture
    from mmspec.images import open_picture as open_picture
    from mmspec.images import picture_from as picture_from
    from mmspec.options import Options as Options
    from mmspec.sampling import Sampling as Sampling
    from mmspec.session import Prefilled as Prefilled
    from mmspec.statistics import Statistics as Statistics
    from mmspec.tree import Tree as Tree

# Imported when first asked for: the command line's help needs neither numpy nor PIL.
_HOMES = {
    "Adaptation": "adaptive",
    "Answer": "chat",
    "Chat": "chat",
    "Conversation": "conversation",
    "Engine": "engine",
    "Message": "conversation",
    "MmspecError": "errors",
    "Options": "options",
    "Picture": "images",
    "Piece": "chat",
    "Prefilled": "session",
    "Sampling": "sampling",
    "Statistics": "statistics",
    "Tree": "tree",
    "load": "engine",
    "open_picture": "images",
    "picture_from": "images",
}

__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'mmspec' has no attribute {name!r}")
    return vars(import_module(f"mmspec.{_HOMES[name]}"))[name]


def __dir__() -> list[str]:
    return [*globals(), *_HOMES]
