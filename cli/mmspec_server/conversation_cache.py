"""Keeps the caches of the last conversations, for requests that go on with one of them."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from mmspec.chat.chat import Chat
from mmspec.chat.engine import Engine
from mmspec.chat.options import Options
from mmspec.prompt.conversation import Chunk, Conversation


@dataclass(frozen=True, slots=True, eq=False)
class _CachedChat:
    chat: Chat
    prompt: Sequence[Chunk]
    """What its last answer was to."""

    def serves(self, chunks: Sequence[Chunk]) -> bool:
        """True if a prompt shares most of the chat's tokens, or is the one answered last."""
        shared = self.chat.cached_tokens(chunks)
        return shared > 0 and (2 * shared >= self.chat.held_tokens or self.prompt == chunks)


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
        self._chats: list[_CachedChat] = []
        self.bytes = 0
        """Bytes of all caches that are kept."""

    def __len__(self) -> int:
        return len(self._chats)

    def open(self, options: Options, before: Conversation, chunks: Sequence[Chunk]) -> Chat:
        """A chat in which the turns `before` are over, from the cache if one begins alike.

        chunks: the whole prompt. Give the chat back with `keep`, also after an error.
        """
        cached = self._alike(options, chunks)
        if cached is None:
            return self._engine.chat(options, before)
        self._chats.remove(cached)
        chat = cached.chat
        chat.change(options)
        chat.conversation = before
        return chat

    def keep(self, chat: Chat, prompt: Sequence[Chunk]) -> None:
        """Keep a chat as the last used one; the least recently used ones leave.

        prompt: what its last answer was to.
        """
        if chat.held_tokens:
            self._chats.append(_CachedChat(chat, prompt))
        sizes = [cached.chat.cache_bytes for cached in self._chats]
        while len(sizes) > self._count or sum(sizes) > self._size:
            del self._chats[0], sizes[0]
        self.bytes = sum(sizes)

    def _alike(self, options: Options, chunks: Sequence[Chunk]) -> _CachedChat | None:
        """Of the chats that serve a prompt the one that shares most of it."""
        alike = [cached for cached in self._chats if _same_options(cached.chat.options, options)]
        serving = [cached for cached in alike if cached.serves(chunks)]
        return max(serving, key=lambda cached: cached.chat.cached_tokens(chunks), default=None)


def _same_options(first: Options, second: Options) -> bool:
    """True if the caches of one serve the other: both sample alike."""
    ours, seed, most = second.logprobs, second.seed, second.max_new_tokens
    return replace(first, logprobs=ours, seed=seed, max_new_tokens=most) == second
