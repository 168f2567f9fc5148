"""Keeps the caches of the last conversations, for requests that go on with one of them."""

from collections.abc import Sequence
from dataclasses import replace

from mmspec.chat.chat import Chat
from mmspec.chat.engine import Engine
from mmspec.chat.options import Options
from mmspec.prompt.conversation import Chunk, Conversation


class ConversationCache:
    """Chats in the order of their use; used on the decoding thread alone.

    Prompts are compared by tokens and image content, so a stateless request costs only what it does
    not share. Answers do not depend on what is cached.
    """

    def __init__(self, engine: Engine, count: int, size: int) -> None:
        """count: the most chats that are kept.  size: the most bytes that their caches take."""
        self._engine = engine
        self._count = count
        self._size = size
        self._chats: list[Chat] = []
        self.bytes = 0
        """Bytes of all caches that are kept."""

    def __len__(self) -> int:
        return len(self._chats)

    def open(self, options: Options, before: Conversation, chunks: Sequence[Chunk]) -> Chat:
        """A chat in which the turns `before` are over, from the cache if one begins alike.

        chunks: the whole prompt. Give the chat back with `keep`, also after an error.
        """
        chat = self._alike(options, chunks)
        if chat is None:
            return self._engine.chat(options, before)
        self._chats.remove(chat)
        chat.change(options)
        chat.conversation = before
        return chat

    def keep(self, chat: Chat) -> None:
        """Keep a chat as the last used one; the least recently used ones leave."""
        if chat.held_tokens:
            self._chats.append(chat)
        sizes = [chat.cache_bytes for chat in self._chats]
        while len(sizes) > self._count or sum(sizes) > self._size:
            del self._chats[0], sizes[0]
        self.bytes = sum(sizes)

    def _alike(self, options: Options, chunks: Sequence[Chunk]) -> Chat | None:
        """The chat that shares most of a prompt, unless more of its own would be lost."""
        alike = [chat for chat in self._chats if _same_options(chat.options, options)]
        chat = max(alike, key=lambda chat: chat.cached_tokens(chunks), default=None)
        if chat is None:
            return None
        shared = chat.cached_tokens(chunks)
        return chat if shared and 2 * shared >= chat.held_tokens else None


def _same_options(first: Options, second: Options) -> bool:
    """True if the caches of one serve the other: both sample alike."""
    ours, seed, most = second.logprobs, second.seed, second.max_new_tokens
    return replace(first, logprobs=ours, seed=seed, max_new_tokens=most) == second
