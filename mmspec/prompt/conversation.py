"""A conversation: its turns, of which each has its images."""

import json
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, zip_longest
from pathlib import Path
from typing import Any
from urllib.parse import quote

from mmspec.ground.errors import ImageError, UsageError
from mmspec.ground.input_files import expand_home
from mmspec.prompt.chat_template import Tool
from mmspec.prompt.clips import Clip
from mmspec.prompt.images import Picture
from mmspec.prompt.saved_conversation import open_parts, png, read_conversation, saved_part

IMAGE_MARKER = "<image>"
"""Marks an image's position in the questions of a data set; typed text is not searched for it."""


@dataclass(frozen=True, slots=True)
class Message:
    """The text and pictures that one side says, in order."""

    role: str
    parts: tuple[str | Picture, ...]
    within_text: bool = False
    """True if all is one text with pictures in it, so that a template cannot move them."""

    def __post_init__(self) -> None:
        if isinstance(self.parts, str):  # each letter would be a part
            raise UsageError(f"a message of the text {self.parts!r}: give a tuple, such as (text,)")
        for part in self.parts:
            if not isinstance(part, str | Picture):
                raise UsageError(
                    f"a message holds {type(part).__name__}: give its parts as text or Picture"
                )

    @property
    def pictures(self) -> tuple[Picture, ...]:
        """The pictures of the message, in order."""
        return tuple(part for part in self.parts if isinstance(part, Picture))

    @property
    def is_empty(self) -> bool:
        """True for a user's message without a word or a picture."""
        texts = (isinstance(part, str) and not part.strip() for part in self.parts)
        return self.role == "user" and all(texts)

    def with_frames(self, most: int) -> "Message":
        """The message with up to `most` frames of each of its clips instead, as images."""
        parts = (part.as_images(most) if isinstance(part, Clip) else (part,) for part in self.parts)
        return replace(self, parts=tuple(chain.from_iterable(parts)))


def interleave(text: str, pictures: Sequence[Picture]) -> Message:
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
    complete: bool = False
    """True if the answer ended by itself."""

    @property
    def messages(self) -> tuple[Message, ...]:
        """What is said before the answer."""
        return tuple(message for message in (*self.earlier, self.question) if message.parts)

    @property
    def pictures(self) -> tuple[Picture, ...]:
        """The pictures of all messages, in order."""
        return tuple(picture for message in self.messages for picture in message.pictures)

    @property
    def clips(self) -> tuple[Clip, ...]:
        """The clips among the pictures."""
        return tuple(picture for picture in self.pictures if isinstance(picture, Clip))

    def with_frames(self, most: int) -> "Turn":
        """The turn with up to `most` frames of all its clips instead, as images."""
        if not self.clips:
            return self
        share = max(most // len(self.clips), 1)
        earlier = tuple(message.with_frames(share) for message in self.earlier)
        return replace(self, question=self.question.with_frames(share), earlier=earlier)


@dataclass
class Conversation:
    """A list of turns, of which only the last may be unanswered."""

    system: str | None = None
    turns: list[Turn] = field(default_factory=list)
    tools: Sequence[Tool] = ()
    """Tools that answers may call; saved conversations have none."""
    thinking: bool | None = None
    """Whether answers may think; None: as the template does.  Saved conversations do not say it."""

    @property
    def is_open(self) -> bool:
        """True if the last question is unanswered."""
        return bool(self.turns) and self.turns[-1].answer is None

    def add(self, question: Message) -> None:
        """Add a question; raises UsageError while another is unanswered."""
        if self.is_open:
            raise UsageError("the last question has no answer yet")
        self.turns.append(Turn(question))

    def answer(self, ids: Iterable[int], text: str, *, complete: bool = False) -> None:
        """Answer the open question; raises UsageError if there is none."""
        if not self.is_open:
            raise UsageError("there is no question to answer")
        turn = self.turns[-1]
        self.turns[-1] = replace(turn, answer=tuple(ids), answer_text=text, complete=complete)

    def undo(self) -> None:
        """Drop the last turn; raises UsageError if there is none."""
        self.last()
        self.turns.pop()

    def reopen(self) -> None:
        """Drop the last answer and keep its question; raises UsageError if there is no turn."""
        self.turns[-1] = replace(self.last(), answer=None, answer_text="", complete=False)

    def reset(self) -> None:
        """Drop all turns; keeps the system message."""
        self.turns.clear()

    def last(self) -> Turn:
        """The last turn; raises UsageError if there is none."""
        if not self.turns:
            raise UsageError("there is no question yet")
        return self.turns[-1]

    @property
    def pictures(self) -> tuple[Picture, ...]:
        """The pictures of all turns, in order."""
        return tuple(picture for turn in self.turns for picture in turn.pictures)

    def to_markdown(self, folder: Path = Path()) -> str:
        """The conversation for people: questions as quotes, images as links from `folder`."""
        texts = [self.system] if self.system else []
        for turn in self.turns:
            for message in turn.messages:
                images = [_shown(image, folder) for image in message.pictures]
                words = [part for part in message.parts if isinstance(part, str)]
                lines = "\n\n".join([*images, *words]).splitlines()
                texts.append("\n".join(f"> {line}".rstrip() for line in lines))
            texts.append(turn.answer_text)
        return "\n\n".join(text.strip("\n") for text in texts if text) + "\n"

    def as_record(self, encode: Callable[[Picture], str] = png) -> dict[str, Any]:
        """The conversation as values of JSON: images of files by path, others as `encode`d PNG."""
        turns = [
            {
                "question": [saved_part(part, encode) for part in turn.question.parts],
                "answer": turn.answer,
                "answer_text": turn.answer_text,
                "complete": turn.complete,
            }
            for turn in self.turns
        ]
        return {"system": self.system, "turns": turns}

    def to_json(self) -> str:
        """Return `as_record` as text, for `from_json`."""
        return json.dumps(self.as_record(), indent=1, ensure_ascii=False)

    @classmethod
    def from_json(cls, text: str, errors: list[ImageError] | None = None) -> "Conversation":
        """Return what `to_json` wrote, its images opened anew; UsageError for other text.

        errors: gets the errors of missing or changed images, which are left out; None raises them.
        """
        record = read_conversation(text)
        conversation = cls(record.system)
        for turn in record.turns:
            question = Message("user", tuple(open_parts(turn.question, errors)))
            answer = turn.answer, turn.answer_text
            conversation.turns.append(Turn(question, *answer, complete=turn.complete))
        return conversation


def _shown(picture: Picture, folder: Path) -> str:
    """A picture in a page that is in `folder`; its name alone if it has no file, as pasted ones."""
    if not picture.from_file:
        return f"[{picture.name}]"
    file = expand_home(picture.name)
    path = str(file) if file.is_absolute() else os.path.relpath(file.resolve(), folder.resolve())
    return f"![{picture.name}]({quote(path, errors='surrogateescape')})"
