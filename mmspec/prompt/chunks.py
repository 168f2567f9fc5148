"""The rendering of a conversation to chunks of tokens and images.

Generated ids are never tokenized again, but for answers whose thoughts the template leaves out
later. With most templates a turn's chunks depend only on it and the turns before it, so a prefilled
prompt is a prefix of every later prompt.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain

from mmspec.ground.tokens import NO_TOKEN, common_prefix
from mmspec.prompt.chat_template import ChatTemplate, Content
from mmspec.prompt.conversation import Conversation, Message, Turn
from mmspec.prompt.images import Picture
from mmspec.prompt.placeholders import Placeholders
from mmspec.prompt.tokenizer import Tokenizer

THOUGHTS_END = "</think>"
"""What a model writes between its thoughts and its answer."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """Tokens and pictures that one side adds; a Picture stands for all positions of its image."""

    content: tuple[int | Picture, ...]
    is_answer: bool = False

    @property
    def parts(self) -> tuple[tuple[int, ...] | Picture, ...]:
        """The pictures, and the runs of tokens between them."""
        parts, tokens = list[tuple[int, ...] | Picture](), list[int]()
        for entry in self.content:
            if isinstance(entry, Picture):
                parts += [tuple(tokens), entry]
                tokens.clear()
            else:
                tokens.append(entry)
        return tuple(filter(None, [*parts, tuple(tokens)]))

    def split(self, other: "Chunk") -> tuple["Chunk", "Chunk"]:
        """The tokens and pictures with which `other` begins too, and the rest of this chunk."""
        length = common_prefix(self.content, other.content)
        before, after = self.content[:length], self.content[length:]
        return replace(self, content=before), replace(self, content=after)


def join(chunks: Iterable[Chunk]) -> Chunk:
    """One chunk of the tokens and pictures of several."""
    return Chunk(tuple(chain.from_iterable(chunk.content for chunk in chunks)))


def pictures(chunks: Iterable[Chunk]) -> Iterator[Picture]:
    """The pictures of chunks, in order."""
    return (entry for chunk in chunks for entry in chunk.content if isinstance(entry, Picture))


def render(
    conversation: Conversation,
    template: ChatTemplate,
    tokenizer: Tokenizer,
    *,
    most: float = math.inf,
) -> list[Chunk]:
    """The conversation as chunks, prompt and answer in turn; an open turn ends with its prompt.

    Its clips are for models that see moments.  most: tokens of text after which no turn follows.
    Raises CheckpointError for a template that drops or repeats answers or images.
    """
    if not conversation.turns:
        return []
    placeholders = Placeholders(tokenizer, template.file)
    *before, last = conversation.turns
    turns = [*(_history(turn, template, tokenizer) for turn in before), last]
    messages = list(_messages(conversation.system, turns, placeholders))
    tools = [*map(placeholders.protect_all, conversation.tools)]
    text = template.render(messages, tools=tools, thinking=conversation.thinking)
    *prompts, question = placeholders.between_answers(text, len(before))
    texts = [*(prompt.removesuffix(template.space_before_answer) for prompt in prompts), question]
    chunks, tokens = list[Chunk](), 0
    for turn, literal in zip(turns, texts, strict=True):
        if tokens > most:
            break
        visuals = [moment for picture in turn.pictures for moment in picture.moments]
        parts = tuple(placeholders.parts(literal, len(visuals)))
        ids = tokenizer.encode_parts(parts, continues=bool(chunks))
        if not chunks and ids[:1] != tokenizer.prefix:
            ids = tokenizer.prefix + ids
        iterator = iter(visuals)
        content = tuple(next(iterator) if id == NO_TOKEN else id for id in ids)
        chunks.append(Chunk(content))
        if turn.answer is not None:
            chunks.append(Chunk(turn.answer, is_answer=True))
        tokens += len(ids) - len(visuals) + len(turn.answer or ())
    return chunks


def _history(turn: Turn, template: ChatTemplate, tokenizer: Tokenizer) -> Turn:
    """The turn as it is shown before a later question, where some templates drop its thoughts."""
    if THOUGHTS_END not in turn.answer_text or not turn.answer:
        return turn
    text = template.earlier_text(turn.answer_text)
    if THOUGHTS_END in text:
        return turn
    return replace(turn, answer=answer_ids(text, template, tokenizer), answer_text=text)


def answer_ids(text: str, template: ChatTemplate, tokenizer: Tokenizer) -> tuple[int, ...]:
    """The tokens of an answer that is known as text alone, such as one that a client sends back.

    They are those that the model would generate, unless it wrote the text in other tokens. Raises
    CheckpointError for a template that drops answers.
    """
    space = template.space_before_answer
    literal = text if text.startswith(space) else space + text
    return tuple(tokenizer.encode_parts([literal], continues=True)) if text else ()


def _messages(
    system: str | None, turns: Sequence[Turn], placeholders: Placeholders
) -> Iterator[tuple[str, Content]]:
    """Yield what is said up to the last turn's answer, with placeholders for the others."""
    if system is not None:
        yield "system", [_text(placeholders.protect(system))]
    for index, turn in enumerate(turns):
        for message in turn.messages:
            yield message.role, _content(message, placeholders)
        if index < len(turns) - 1:
            yield "assistant", [_text(placeholders.answer(index))]


def _content(message: Message, placeholders: Placeholders) -> Content:
    """A message as the template's content: its parts in order, a clip as placeholders in a text."""

    def literal(part: str | Picture) -> str:
        if isinstance(part, str):
            return placeholders.protect(part)
        return placeholders.picture(part)

    if message.within_text:
        return [_text("".join(map(literal, message.parts)))]
    return [
        {"type": "image"} if isinstance(part, Picture) and not part.frames else _text(literal(part))
        for part in message.parts
    ]


def _text(text: str) -> Mapping[str, str]:
    return {"type": "text", "text": text}
