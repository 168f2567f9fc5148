"""The JSON of a saved conversation: files by path and digest, other images as PNG."""

from base64 import b64decode, b64encode
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from io import BytesIO
from typing import Any
from urllib.parse import quote, unquote

from mmspec.families.decoder import TokenId
from mmspec.ground.errors import ImageError, UsageError
from mmspec.ground.input_files import expand_home
from mmspec.ground.json_file import parse_as
from mmspec.prompt.clips import FPS, Clip
from mmspec.prompt.film import open_clip
from mmspec.prompt.images import Picture, decode_picture, open_picture

FILE_URL = "file://"
"""Beginning of a path in which every byte is a character or %XX; a saved path begins otherwise."""
NO_CONVERSATION = "this is not a saved conversation"


@dataclass(frozen=True, slots=True)
class SavedPart:
    """A text, the path of an image or clip, or the image itself as PNG in base64."""

    text: str | None = None
    image: str | None = None
    clip: str | None = None
    fps: float = FPS
    max_frames: int | None = None
    png: str | None = None
    name: str = ""
    digest: str = ""


@dataclass(frozen=True, slots=True)
class SavedTurn:
    """A question and its answer, None until it is given."""

    question: list[SavedPart]
    answer: tuple[TokenId, ...] | None
    answer_text: str
    complete: bool = False


@dataclass(frozen=True, slots=True)
class SavedConversation:
    """What `Conversation.to_json` writes."""

    system: str | None
    turns: list[SavedTurn]


def saved_part(part: str | Picture, encode: Callable[[Picture], str]) -> dict[str, Any]:
    """The JSON object of a part of a question; encode: `png`, or what keeps its results."""
    if isinstance(part, str):
        return {"text": part}
    if part.from_file:
        path = _address(str(expand_home(part.name).absolute()))
        sampling = asdict(part.sampling) if isinstance(part, Clip) else {}
        return {part.kind: path, **sampling, "digest": part.digest}
    return {"png": encode(part), "name": part.name, "digest": part.digest}


def png(picture: Picture) -> str:
    """An image as PNG in base64."""
    content = BytesIO()
    picture.image.save(content, "PNG")
    return b64encode(content.getvalue()).decode()


def _address(path: str) -> str:
    """The path, or a file: URL if it has other bytes than those of printable text."""
    return path if path.isprintable() else f"{FILE_URL}{quote(path, errors='surrogateescape')}"


def _path(address: str) -> str:
    if not address.startswith(FILE_URL):
        return address
    return unquote(address.removeprefix(FILE_URL), errors="surrogateescape")


def read_conversation(text: str) -> SavedConversation:
    """Read what `Conversation.to_json` wrote, without opening images.

    Raises UsageError for other text, for an answer that is missing before the last question, and
    for an answer whose text has no tokens.
    """
    conversation = parse_as(SavedConversation, text, NO_CONVERSATION)
    for number, turn in enumerate(conversation.turns, 1):
        if turn.answer is None and number < len(conversation.turns):
            raise _refusal(f"answer {number} is missing")
        if turn.answer_text and not turn.answer:
            raise _refusal(f"answer {number} has a text without tokens")
    return conversation


def _refusal(reason: str) -> UsageError:
    return UsageError(f"{NO_CONVERSATION}: {reason}")


def open_parts(
    question: Iterable[SavedPart], errors: list[ImageError] | None
) -> Iterator[str | Picture]:
    """Yield the parts of a question, its images opened anew; see `Conversation.from_json`."""
    for part in question:
        try:
            yield _open_part(part)
        except ImageError as error:
            if errors is None:
                raise
            errors.append(error)


def _open_part(part: SavedPart) -> str | Picture:
    if part.text is not None:
        return part.text
    if part.png is not None:
        try:
            content = b64decode(part.png, validate=True)
        except ValueError as error:
            raise _refusal("a picture is not base64") from error
        picture = decode_picture(content, part.name)
    elif part.image is not None:
        picture = open_picture(_path(part.image))
    elif part.clip is not None:
        picture = open_clip(_path(part.clip), part.fps, part.max_frames)
    else:
        raise _refusal("a part is neither text nor image nor clip")
    if picture.digest != part.digest:
        raise ImageError(
            f"{picture.name}: the {picture.kind} has changed since the conversation was saved"
        )
    return picture
