"""Reads the messages of a request: their texts, pictures, calls and results."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from mmspec.ground.json_reader import parse_json
from mmspec.prompt.chat_template import Tool
from mmspec.prompt.conversation import Message, Turn
from mmspec.prompt.images import Picture
from mmspec.prompt.tool_calls import Call, CallForm
from mmspec_server.chat_request import ChatRequest
from mmspec_server.endpoint import ApiError, Fields
from mmspec_server.images import ImageReader

SYSTEM = ("system", "developer")
IMAGES = ("image_url", "input_image")
TEXTS = ("text", "input_text", "output_text")


@dataclass(slots=True)
class Transcript:
    """The text and pictures of a request's messages; answers are text, not tokens."""

    system: list[str] = field(default_factory=list)
    questions: list[list[Message]] = field(default_factory=list)
    """The user's messages before each answer; there may be none."""
    answers: list[str] = field(default_factory=list)
    tools: Sequence[Tool] = ()
    calls: CallForm | None = None
    """How answers write calls; None if the model has no tools."""
    thinking: bool | None = None

    @property
    def is_open(self) -> bool:
        """True if the last question has no answer yet."""
        return len(self.questions) > len(self.answers)

    def add(self, message: Fields, reader: ImageReader) -> None:
        """Add a message, its pictures opened; raises ApiError where it cannot stand."""
        role = message.text("role")
        if role in SYSTEM:
            if self.questions:
                raise message.error("role", "user or assistant after the first of these")
            self.system.append(_plain(message))
        elif role in ("user", "assistant", "tool"):
            if not self.is_open:
                self.questions.append([])
            if role == "user":
                self.questions[-1].append(Message(role, tuple(_parts(message, reader.picture))))
            elif role == "tool":
                self.questions[-1].append(Message(role, (_plain(message),)))
            else:
                self.answers.append(self._answer(message))
        else:
            raise message.error("role", "system, developer, user, assistant or tool")

    def _answer(self, message: Fields) -> str:
        """The text of an answer with its calls, as the model writes them."""
        text = _plain(message)
        if not message.get("tool_calls") or self.calls is None:
            return text
        return self.calls.written(text, [*map(_call, message.blocks("tool_calls"))])

    def turns(self) -> list[Turn]:
        """The turns without the tokens of their answers; the last one is open."""
        return [
            Turn(
                messages[-1] if messages else Message("user", ()), None, text, tuple(messages[:-1])
            )
            for messages, text in zip(self.questions, [*self.answers, ""], strict=True)
        ]


def _call(call: Fields) -> Call:
    function = call.block("function")
    try:
        arguments = parse_json(function.text("arguments").encode())
    except ValueError:
        arguments = None
    if not isinstance(arguments, dict):
        raise function.error("arguments", "the text of a JSON object")
    return Call(function.text("name"), arguments)


def read_transcript(
    request: ChatRequest, reader: ImageReader, most_images: int, calls: CallForm | None = None
) -> Transcript:
    """The transcript of a request; counts images before decoding.  Raises ApiError."""
    param = request.param
    images = sum(map(_images, request.messages))
    if images > most_images:
        raise ApiError(400, f"{param}: {images} images, at most {most_images} are allowed", param)
    transcript = Transcript(tools=request.tools, calls=calls, thinking=request.thinking)
    for message in request.messages:
        transcript.add(message, reader)
    if not transcript.is_open:
        raise ApiError(400, f"{param}: the last message must be the user's or a tool's", param)
    return transcript


def _images(message: Fields) -> int:
    content = message.get("content")
    parts = content if isinstance(content, list) else []
    return sum(isinstance(part, dict) and part.get("type") in IMAGES for part in parts)


def _plain(message: Fields) -> str:
    """The text of a message that cannot have images; an answer may be null."""
    if message.get("content") is None and message.text("role") == "assistant":
        return ""
    return "\n".join(map(str, _parts(message, _no_picture)))


def _parts(message: Fields, picture: Callable[[str, str], Picture]) -> list[str | Picture]:
    content = message.get("content")
    if isinstance(content, str):
        return [content]
    if not isinstance(content, list):
        raise message.error("content", "a string or a list of parts")
    return [_part(part, picture) for part in message.blocks("content")]


def _part(part: Fields, picture: Callable[[str, str], Picture]) -> str | Picture:
    kind = part.text("type")
    if kind in TEXTS:
        return part.text("text")
    if kind not in IMAGES:
        raise part.error("type", "text or image_url (in /v1/responses input_text or input_image)")
    block, key = (part.block(kind), "url") if kind == "image_url" else (part, "image_url")
    return picture(block.text(key), f"{block.path}{key}")


def _no_picture(_: str, param: str) -> Picture:
    raise ApiError(400, f"{param}: only the user's messages can show images", param)
