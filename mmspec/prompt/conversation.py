"""A conversation, and its rendering to chunks of tokens and images.

Every image belongs to a turn. Generated ids are never tokenized again, but for answers whose
thoughts the template leaves out later. With most templates a turn's chunks depend only on it and
the turns before it, so a prefilled prompt is a prefix of every later prompt.
"""

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, groupby, takewhile, zip_longest
from typing import Literal
from urllib.parse import quote

from mmspec.ground.errors import ImageError, UsageError
from mmspec.ground.tokens import NO_TOKEN
from mmspec.prompt.chat_template import ChatTemplate, Content, Tool
from mmspec.prompt.images import Picture
from mmspec.prompt.placeholders import Placeholders
from mmspec.prompt.saved_conversation import opened_parts, read_saved, saved_part
from mmspec.prompt.tokenizer import Tokenizer

IMAGE_MARKER = "<image>"
"""Marks an image's position in the questions of a data set; typed text is not searched for it."""

THOUGHTS_END = "</think>"
"""What a model writes between its thoughts and its answer."""


@dataclass(frozen=True, slots=True)
class Message:
    """The text and pictures that one side says, in order."""

    role: str
    parts: tuple[str | Picture, ...]
    within_text: bool = False
    """True if all is one text with pictures in it, so that a template cannot move them."""

    def __post_init__(self) -> None:
        for part in self.parts:
            if not isinstance(part, str | Picture):
                raise UsageError(
                    f"a message holds {type(part).__name__}: give its parts as text or Picture"
                )

    @property
    def pictures(self) -> tuple[Picture, ...]:
        """The pictures of the message, in order."""
        return tuple(part for part in self.parts if isinstance(part, Picture))

    def with_frames(self, most: int) -> "Message":
        """The message with up to `most` frames of each of its clips instead, as images."""
        parts = ((part,) if isinstance(part, str) else part.shown(most) for part in self.parts)
        return replace(self, parts=tuple(chain.from_iterable(parts)))


def interleaved(text: str, pictures: Sequence[Picture]) -> Message:
    """The user's message with pictures where `text` has an IMAGE_MARKER, or all before it."""
    texts = text.split(IMAGE_MARKER)
    if len(texts) == 1:
        return Message("user", (*pictures, text))
    pairs = zip_longest(texts, pictures)
    parts = tuple(part for pair in pairs for part in pair if part)
    return Message("user", parts, within_text=True)


@dataclass(frozen=True, slots=True)
class Turn:
    """A question and its answer.

    The answer is None until it is given; its ids have no stop token. A question without parts is
    not there: the conversation begins with an answer, or one answer follows another.
    """

    question: Message
    answer: tuple[int, ...] | None = None
    answer_text: str = ""
    earlier: tuple[Message, ...] = ()
    """Questions before this one that have no answer."""

    @property
    def messages(self) -> tuple[Message, ...]:
        """What is said before the answer."""
        return tuple(message for message in (*self.earlier, self.question) if message.parts)

    @property
    def pictures(self) -> tuple[Picture, ...]:
        """The pictures of all messages, in order."""
        return tuple(picture for message in self.messages for picture in message.pictures)

    @property
    def clips(self) -> tuple[Picture, ...]:
        """The clips among the pictures."""
        return tuple(picture for picture in self.pictures if picture.frames)

    def with_frames(self, most: int) -> "Turn":
        """The turn with up to `most` frames of all its clips instead, as images."""
        if not self.clips:
            return self
        each = max(most // len(self.clips), 1)
        *earlier, question = (
            message.with_frames(each) for message in (*self.earlier, self.question)
        )
        return replace(self, question=question, earlier=tuple(earlier))


@dataclass
class Conversation:
    """A list of turns, of which only the last may be unanswered."""

    system: str | None = None
    turns: list[Turn] = field(default_factory=list)
    tools: Sequence[Tool] = ()
    """Tools that answers may call; saved conversations have none."""
    thinking: bool | None = None
    """Whether answers may think, which the chat template is told; None leaves it to the template.

    Saved conversations do not say it.
    """

    @property
    def is_open(self) -> bool:
        """True if the last question is unanswered."""
        return bool(self.turns) and self.turns[-1].answer is None

    def add(self, question: Message) -> None:
        """Add a question; raises UsageError while another is unanswered."""
        if self.is_open:
            raise UsageError("the last question has no answer yet")
        self.turns.append(Turn(question))

    def answer(self, ids: Iterable[int], text: str) -> None:
        """Answer the open question; raises UsageError if there is none."""
        if not self.is_open:
            raise UsageError("there is no question to answer")
        self.turns[-1] = replace(self.turns[-1], answer=tuple(ids), answer_text=text)

    def undo(self) -> None:
        """Drop the last turn; raises UsageError if there is none."""
        self.last()
        self.turns.pop()

    def reopen(self) -> None:
        """Drop the last answer and keep its question; raises UsageError if there is no turn."""
        self.turns[-1] = replace(self.last(), answer=None, answer_text="")

    def with_frames(self, most: int) -> "Conversation":
        """The conversation with up to `most` frames of a turn's clips instead, as images."""
        return replace(self, turns=[turn.with_frames(most) for turn in self.turns])

    def reset(self) -> None:
        """Drop all turns; keeps the system message."""
        self.turns.clear()

    def last(self) -> Turn:
        """The last turn; raises UsageError if there is none."""
        if not self.turns:
            raise UsageError("there is no turn yet")
        return self.turns[-1]

    @property
    def pictures(self) -> tuple[Picture, ...]:
        """The pictures of all turns, in order."""
        return tuple(picture for turn in self.turns for picture in turn.pictures)

    def to_markdown(self) -> str:
        """The conversation for people: questions as quotes, images as links to their files."""
        texts = [self.system] if self.system else []
        for turn in self.turns:
            for message in turn.messages:
                images = [f"![{each.name}]({quote(each.name)})" for each in message.pictures]
                words = [part for part in message.parts if isinstance(part, str)]
                lines = "\n\n".join([*images, *words]).splitlines()
                texts.append("\n".join(f"> {line}".rstrip() for line in lines))
            texts.append(turn.answer_text)
        return "\n\n".join(text.strip("\n") for text in texts if text) + "\n"

    def to_json(self) -> str:
        """Return the conversation as JSON: images of files by path and digest, others as PNG."""
        turns = [
            {
                "question": [saved_part(part) for part in turn.question.parts],
                "answer": turn.answer,
                "answer_text": turn.answer_text,
            }
            for turn in self.turns
        ]
        return json.dumps({"system": self.system, "turns": turns}, indent=1, ensure_ascii=False)

    @classmethod
    def from_json(cls, text: str, lost: list[ImageError] | None = None) -> "Conversation":
        """Return what `to_json` wrote, its images opened anew.

        lost: where to put the errors of images that are missing or changed, which are then left
        out; None raises ImageError.  Raises UsageError for other text.
        """
        saved = read_saved(text)
        turns = [
            Turn(
                Message("user", tuple(opened_parts(turn.question, lost))),
                turn.answer,
                turn.answer_text,
            )
            for turn in saved.turns
        ]
        return cls(saved.system, turns)


@dataclass(frozen=True, slots=True)
class Chunk:
    """Tokens and pictures that one side adds to the sequence.

    A Picture stands for all positions of its image.
    """

    kind: Literal["prompt", "answer"]
    parts: tuple[tuple[int, ...] | Picture, ...]

    @property
    def is_answer(self) -> bool:
        """True for the tokens of an answer."""
        return self.kind == "answer"

    def split(self, other: "Chunk") -> tuple["Chunk", "Chunk"]:
        """The tokens and pictures with which `other` begins too, and the rest of this chunk."""
        for place, (mine, theirs) in enumerate(zip(self.parts, other.parts, strict=False)):
            if mine != theirs:
                return self._cut(place, _equal_tokens(mine, theirs))
        return self._cut(min(len(self.parts), len(other.parts)), 0)

    def _cut(self, place: int, tokens: int) -> tuple["Chunk", "Chunk"]:
        """The chunk up to `tokens` tokens of the part at `place`, and the rest."""
        before, after = self.parts[:place], self.parts[place:]
        if tokens and isinstance(after[0], tuple):
            before, after = (*before, after[0][:tokens]), (after[0][tokens:], *after[1:])
        return replace(self, parts=before), replace(self, parts=tuple(filter(None, after)))


def joined(chunks: Iterable[Chunk]) -> Chunk:
    """One chunk of the tokens and pictures of several."""
    parts = chain.from_iterable(chunk.parts for chunk in chunks)
    whole, tokens = list[tuple[int, ...] | Picture](), list[int]()
    for part in parts:
        if isinstance(part, Picture):
            whole += [tuple(tokens), part]
            tokens.clear()
        else:
            tokens += part
    return Chunk("prompt", tuple(filter(None, [*whole, tuple(tokens)])))


def _equal_tokens(first: tuple[int, ...] | Picture, second: tuple[int, ...] | Picture) -> int:
    """Number of tokens with which two parts begin, 0 if one is a picture."""
    if isinstance(first, Picture) or isinstance(second, Picture):
        return 0
    pairs = zip(first, second, strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


def render(
    conversation: Conversation,
    template: ChatTemplate,
    tokenizer: Tokenizer,
    *,
    most: float = math.inf,
) -> list[Chunk]:
    """The conversation as chunks, prompt and answer in turn; an open turn ends with its prompt.

    most: tokens of text after which no turn follows.  Raises CheckpointError for a template that
    drops or repeats answers or images.
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
    texts = [*map(template.without_space, prompts), question]
    chunks, tokens = list[Chunk](), 0
    for turn, literal in zip(turns, texts, strict=True):
        if tokens > most:
            break
        pictures = placeholders.seen(turn.pictures)
        parts = tuple(placeholders.parts(literal, len(pictures)))
        ids = tokenizer.encode_parts(parts, continues=bool(chunks))
        if not chunks and ids[:1] != tokenizer.prefix:
            ids = tokenizer.prefix + ids
        chunks.append(Chunk("prompt", tuple(_with_pictures(ids, pictures))))
        if turn.answer is not None:
            chunks.append(Chunk("answer", (turn.answer,) if turn.answer else ()))
        written = (part for chunk in chunks[-2:] for part in chunk.parts)
        tokens += sum(len(part) for part in written if isinstance(part, tuple))
    return chunks


def _history(turn: Turn, template: ChatTemplate, tokenizer: Tokenizer) -> Turn:
    """The turn as it is shown before a later question, where some templates drop its thoughts."""
    if THOUGHTS_END not in turn.answer_text or not turn.answer:
        return turn
    text = template.remembered(turn.answer_text)
    if THOUGHTS_END in text:
        return turn
    return replace(turn, answer=answer_ids(text, template, tokenizer), answer_text=text)


def answer_ids(text: str, template: ChatTemplate, tokenizer: Tokenizer) -> tuple[int, ...]:
    """The tokens of an answer that is known as text alone, such as one that a client sends back.

    They are those that the model would generate, unless it wrote the text in other tokens. Raises
    CheckpointError for a template that drops answers.
    """
    space = template.before_answer
    literal = space + text if space.isspace() and not text.startswith(space) else text
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
    if message.within_text:
        texts = (
            placeholders.protect(part) if isinstance(part, str) else placeholders.picture(part)
            for part in message.parts
        )
        return [_text("".join(texts))]
    return [_part(part, placeholders) for part in message.parts]


def _part(part: str | Picture, placeholders: Placeholders) -> Mapping[str, str]:
    if isinstance(part, str):
        return _text(placeholders.protect(part))
    return _text(placeholders.picture(part)) if part.frames else {"type": "image"}


def _text(text: str) -> Mapping[str, str]:
    return {"type": "text", "text": text}


def _with_pictures(
    ids: Sequence[int], pictures: Sequence[Picture]
) -> Iterator[tuple[int, ...] | Picture]:
    remaining = iter(pictures)
    for is_image, run in groupby(ids, key=lambda id: id == NO_TOKEN):
        if is_image:
            yield from (next(remaining) for _ in run)
        else:
            yield tuple(run)
