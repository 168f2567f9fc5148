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
    from mmspec.checkpoints.head_config import HeadConfig as HeadConfig
    from mmspec.decoding.acceptance import Verdict as Verdict
    from mmspec.decoding.contract import Drafter as Drafter
    from mmspec.decoding.contract import Head as Head
    from mmspec.decoding.contract import Model as Model
    from mmspec.decoding.contract import Segment as Segment
    from mmspec.decoding.contract import Target as Target
    from mmspec.decoding.draft import Draft as Draft
    from mmspec.decoding.draft import HostDraft as HostDraft
    from mmspec.decoding.draft import Plan as Plan
    from mmspec.decoding.noise import Noise as Noise
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
    "checkpoints.head_config": ("HeadConfig",),
    "decoding.acceptance": ("Verdict",),
    "decoding.contract": ("Drafter", "Head", "Model", "Segment", "Target"),
    "decoding.draft": ("Draft", "HostDraft", "Plan"),
    "decoding.noise": ("Noise",),
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
