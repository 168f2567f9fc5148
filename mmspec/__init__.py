"""Lossless speculative decoding for multimodal models.

`load` a target and a draft, open a chat, stream its answers:

    engine = mmspec.load("mini")
    chat = engine.chat()
    answer = chat.reply("What is in this picture?", "photo.png")
"""

from importlib import import_module
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    __version__: str
    from mmspec.chat.answer import Answer as Answer
    from mmspec.chat.answer import Piece as Piece
    from mmspec.chat.answer import Stream as Stream
    from mmspec.chat.chat import Chat as Chat
    from mmspec.chat.engine import Engine as Engine
    from mmspec.chat.engine import load as load
    from mmspec.chat.options import Options as Options
    from mmspec.chat.session import Prefilled as Prefilled
    from mmspec.decoding.adaptive_weights import Adaptation as Adaptation
    from mmspec.decoding.sampling import Sampling as Sampling
    from mmspec.decoding.statistics import Statistics as Statistics
    from mmspec.decoding.tree import Tree as Tree
    from mmspec.ground.errors import MmspecError as MmspecError
    from mmspec.prompt.conversation import Conversation as Conversation
    from mmspec.prompt.conversation import Message as Message
    from mmspec.prompt.film import open_clip as open_clip
    from mmspec.prompt.images import Picture as Picture
    from mmspec.prompt.images import open_picture as open_picture
    from mmspec.prompt.images import picture_from as picture_from

# Imported when first asked for: the command line's help needs neither numpy nor PIL.
_NAMES = {
    "chat.answer": ("Answer", "Piece", "Stream"),
    "chat.chat": ("Chat",),
    "chat.engine": ("Engine", "load"),
    "chat.options": ("Options",),
    "chat.session": ("Prefilled",),
    "decoding.adaptive_weights": ("Adaptation",),
    "decoding.sampling": ("Sampling",),
    "decoding.statistics": ("Statistics",),
    "decoding.tree": ("Tree",),
    "ground.errors": ("MmspecError",),
    "prompt.conversation": ("Conversation", "Message"),
    "prompt.film": ("open_clip",),
    "prompt.images": ("Picture", "open_picture", "picture_from"),
}
_HOMES = {name: module for module, names in _NAMES.items() for name in names}

__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    if name == "__version__":
        return version("mmspec")
    if name not in _HOMES:
        raise AttributeError(f"module 'mmspec' has no attribute {name!r}")
    return vars(import_module(f"mmspec.{_HOMES[name]}"))[name]


def __dir__() -> list[str]:
    return [*globals(), *_HOMES, "__version__"]
