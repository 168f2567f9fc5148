"""The rendering of a conversation to chunks of tokens and images.

Generated ids are never tokenized again, but for answers whose thoughts the template leaves out
later. With most templates a turn's chunks depend only on it and the turns before it, so a prefilled
prompt is a prefix of every later prompt.
"""

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from mmspec.ground.errors import CheckpointError
from mmspec.ground.tokens import NO_TOKEN, common_prefix
from mmspec.prompt.chat_template import ChatTemplate, Content
from mmspec.prompt.conversation import Conversation, Message, Turn
from mmspec.prompt.images import Picture
from mmspec.prompt.tokenizer import Tokenizer

THOUGHTS_END = "</think>"
"""What a model writes between its thoughts and its answer."""
# Private-use characters. Where a user's text holds one, it is replaced like a special token.
_LITERAL, _ANSWER, _IMAGE, _END = "\ue000", "\ue001", "\ue002", "\ue003"
_VISUAL = "\ue004"  # an image without the tokens around it
_PLACEHOLDER = re.compile(f"{_LITERAL}([0-9]+){_END}")


@dataclass(frozen=True, slots=True)
class Chunk:
    """Tokens and pictures that one side adds; a Picture stands for all positions of its image."""

    content: tuple[int | Picture, ...]
    is_answer: bool = field(default=False, kw_only=True)

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


def pictures(chunks: Iterable[Chunk]) -> Iterator[Picture]:
    """The pictures of chunks, in order."""
    return (entry for chunk in chunks for entry in chunk.content if isinstance(entry, Picture))


class Placeholders:
    """Placeholders that pass answers, images and literal text through a template unchanged.

    A template writes special tokens and image markers as plain text, and a user may type the same
    text. Special texts in user input are therefore replaced by placeholders before rendering and
    restored afterwards; those that the template writes become special tokens.
    """

    def __init__(self, tokenizer: Tokenizer, file: str) -> None:
        """file: the template's, named in errors."""
        self._tokenizer = tokenizer
        self._file = file
        self._texts: list[str] = []
        special = [*tokenizer.special_texts, _LITERAL, _ANSWER, _IMAGE, _END, _VISUAL]
        self._special = re.compile("|".join(map(re.escape, special)))

    def protect(self, text: str) -> str:
        """`text` with placeholders for the parts that would be read as special tokens."""
        return self._special.sub(self._replace, text)

    def protect_all(self, value: Any) -> Any:
        """A JSON value with all its texts protected."""
        if isinstance(value, str):
            return self.protect(value)
        if isinstance(value, dict):
            return {self.protect(key): self.protect_all(entry) for key, entry in value.items()}
        return [*map(self.protect_all, value)] if isinstance(value, list) else value

    def _replace(self, match: re.Match[str]) -> str:
        self._texts.append(match.group())
        return f"{_LITERAL}{len(self._texts) - 1}{_END}"

    def literal(self, part: str | Picture) -> str:
        """The text that stands for a part of a message within a text of the template's input."""
        if isinstance(part, str):
            return self.protect(part)
        if not part.frames:
            return _IMAGE
        tokens = self._tokenizer.image_tokens
        moments = (
            f"<{moment.clip_place.time:.1f} seconds>{_IMAGE}" if tokens.clip == "timed" else _VISUAL
            for moment in part.moments
        )
        return f"{tokens.before}{''.join(moments)}{tokens.after}"

    def answer(self, turn: int) -> str:
        """The text that stands for the answer of turn number `turn` in the template's input."""
        return f"{_ANSWER}{turn}{_END}"

    def between_answers(self, text: str, answers: int) -> list[str]:
        """The parts of a rendered text around its answers; CheckpointError unless all are there."""
        first, *pieces = re.split(f"{_ANSWER}([0-9]+){_END}", text)
        if pieces[::2] != [str(turn) for turn in range(answers)]:
            raise CheckpointError(f"the chat template in {self._file} drops or repeats answers")
        return [first, *pieces[1::2]]

    def parts(self, text: str, images: int) -> Sequence[str | int]:
        """Split a rendered text into literal texts, ids of special tokens and image placeholders.

        Raises CheckpointError unless there are `images` image placeholders.
        """
        image_id, parts = self._tokenizer.image_token_id, list[str | int]()
        frame = self._tokenizer.image_tokens
        text = text.replace(_IMAGE, f"{frame.before}{_VISUAL}{frame.after}")
        if image_id is None:
            text = text.replace(self._tokenizer.image_token, _VISUAL)
        for part in self._tokenizer.split_special(text):
            if isinstance(part, int):
                parts.append(NO_TOKEN if part == image_id else part)
                continue
            for piece in filter(None, re.split(f"({_VISUAL})", part)):
                parts.append(NO_TOKEN if piece == _VISUAL else self._restore(piece))
        count = parts.count(NO_TOKEN)
        if count != images:
            raise CheckpointError(
                f"the chat template in {self._file} shows {count} of {images} images"
            )
        return parts

    def _restore(self, text: str) -> str:
        return _PLACEHOLDER.sub(lambda match: self._texts[int(match[1])], text)


def render(
    conversation: Conversation,
    template: ChatTemplate,
    tokenizer: Tokenizer,
    *,
    most: float = math.inf,
) -> list[Chunk]:
    """The conversation as chunks, prompt and answer in turn; an open turn ends with its prompt.

    Clips must be frames already for a family that sees them as images (`Turn.with_frames`).
    most: tokens of text after which no turn follows.
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
    texts = [*map(placeholders.literal, message.parts)]
    if message.within_text:
        return [_text("".join(texts))]
    return [{"type": "image"} if text == _IMAGE else _text(text) for text in texts]


def _text(text: str) -> Mapping[str, str]:
    return {"type": "text", "text": text}
