"""Reads the messages of a request as a conversation with an open question."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from mmspec.prompt.conversation import Message
from mmspec.prompt.images import Picture
from mmspec_server.errors import ApiError
from mmspec_server.fields import Fields
from mmspec_server.images import ImageReader

Part = str | Picture
SYSTEM = ("system", "developer")


@dataclass(slots=True)
class Dialogue:
    """The text and pictures of a request's messages; answers are text, not tokens."""

    system: list[str] = field(default_factory=list)
    questions: list[list[Part]] = field(default_factory=list)
    answers: list[str] = field(default_factory=list)

    def add_question(self, parts: Sequence[Part]) -> None:
        """Add the user's parts; to the last question if that has no answer yet."""
        if len(self.questions) == len(self.answers):
            self.questions.append([])
        self.questions[-1] += parts

    def messages(self) -> list[Message]:
        """The questions in order; the last one is open."""
        return [Message("user", arranged(parts)) for parts in self.questions]


def read_messages(
    messages: Sequence[Fields], reader: ImageReader, most_images: int, param: str = "messages"
) -> Dialogue:
    """The dialogue of a request; decodes no image before they are counted.

    param: the field that holds the messages. Raises ApiError for messages that no chat template can
    show.
    """
    images = sum(map(_images, messages))
    if images > most_images:
        raise ApiError(400, f"{param}: {images} images, at most {most_images} are allowed", param)
    dialogue = Dialogue()
    for message in messages:
        _add(dialogue, message, reader)
    if len(dialogue.questions) == len(dialogue.answers):
        raise ApiError(400, f"{param}: the last message must be the user's", param)
    return dialogue


def _add(dialogue: Dialogue, message: Fields, reader: ImageReader) -> None:
    role = message.text("role")
    if role in SYSTEM:
        if dialogue.questions:
            raise message.error("role", "user or assistant after the first question")
        dialogue.system.append(_plain(message))
    elif role == "assistant":
        if len(dialogue.questions) == len(dialogue.answers):
            raise message.error("role", "user here: an answer follows a question")
        dialogue.answers.append(_plain(message))
    elif role == "user":
        dialogue.add_question(_parts(message, reader.picture))
    else:
        raise message.error("role", "system, developer, user or assistant (no tools are called)")


def _plain(message: Fields) -> str:
    """The text of a message that cannot have images; an answer may be null."""
    if message.get("content") is None and message.text("role") == "assistant":
        return ""
    return "\n".join(map(str, _parts(message, _no_picture)))


def _parts(message: Fields, picture: Callable[[str, str], Picture]) -> list[Part]:
    content = message.get("content")
    if isinstance(content, str):
        return [content]
    if not isinstance(content, list):
        raise message.error("content", "a string or a list of parts")
    return [_part(part, picture) for part in message.blocks("content")]


def _part(part: Fields, picture: Callable[[str, str], Picture]) -> Part:
    kind = part.text("type")
    if kind in ("text", "input_text", "output_text"):
        return part.text("text")
    if kind == "image_url":
        block = part.block("image_url")
        return picture(block.text("url"), f"{block.path}url")
    if kind == "input_image":
        return picture(part.text("image_url"), f"{part.path}image_url")
    raise part.error("type", "text or image_url (in /v1/responses input_text or input_image)")


def _no_picture(_: str, param: str) -> Picture:
    raise ApiError(400, f"{param}: only the user's messages can show images", param)


def _images(message: Fields) -> int:
    content = message.get("content")
    parts = content if isinstance(content, list) else []
    kinds = [part.get("type") for part in parts if isinstance(part, dict)]
    return kinds.count("image_url") + kinds.count("input_image")


def arranged(parts: Sequence[Part]) -> tuple[Part, ...]:
    """A question's parts as `generate` has them: images first, texts joined by line breaks.

    Images between two texts stay where they are, because the texts may speak of their places.
    """
    joined = list(_joined(parts))
    pictures = [part for part in joined if isinstance(part, Picture)]
    texts = [part for part in joined if isinstance(part, str)]
    return tuple(joined if len(texts) > 1 else [*pictures, *(texts or [""])])


def _joined(parts: Sequence[Part]) -> Iterator[Part]:
    """The parts with neighbouring texts joined."""
    text: list[str] = []
    for part in parts:
        if isinstance(part, str):
            text.append(part)
            continue
        if text:
            yield "\n".join(text)
        text = []
        yield part
    if text:
        yield "\n".join(text)
