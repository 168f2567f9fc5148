"""Reads the messages of a request as a conversation, and renders the prompt."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from mmspec import Conversation, Engine, Message, Picture
from mmspec.ground.json_reader import parse_json, read_value
from mmspec.prompt.chunks import Chunk, pictures
from mmspec.prompt.conversation import Turn
from mmspec.prompt.tool_calls import Call, CallForm
from mmspec_server.chat_request import ChatRequest
from mmspec_server.endpoint import ApiError, Fields
from mmspec_server.images import ImageReader

IMAGES = ("image_url", "input_image")
TEXTS = ("text", "input_text", "output_text")


@dataclass(frozen=True, slots=True)
class RequestPrompt:
    """A question with the turns before it, and its tokens."""

    before: Conversation
    question: Message
    chunks: Sequence[Chunk]
    room: int
    """Positions that the model has left for the answer."""
    context: Sequence[int] = ()
    """The last tokens of a text that the answer continues; none if it begins a text."""


def prepare(engine: Engine, conversation: Conversation, param: str) -> RequestPrompt:
    """The prompt of a conversation, whose earlier answers are texts; ApiError if it is too long."""
    target, last = engine.target, conversation.turns[-1]
    if last.question.is_empty:
        raise ApiError(400, f"{param}: the last is empty: give a text or an image", param)
    if target.features is None and conversation.pictures:
        raise ApiError(400, f"{param}: this model is text-only and cannot see images", param)
    before = target.translate(replace(conversation, turns=conversation.turns[:-1]))
    most = target.model.config.text.max_position_embeddings
    chunks = target.chunks(replace(before, turns=[*before.turns, last]), most=most)
    return RequestPrompt(before, last.question, chunks, _room(engine, chunks, param))


def prepare_text(engine: Engine, text: str) -> RequestPrompt:
    """The prompt of a text to continue, in which special tokens may be written; see `prepare`."""
    tokenizer = engine.target.tokenizer
    ids = tokenizer.encode_parts(tokenizer.split_special(text))
    if tokenizer.image_token_id in ids:
        raise ApiError(400, "prompt: images are sent to /v1/chat/completions", "prompt")
    if ids[:1] != tokenizer.prefix:
        ids = [*tokenizer.prefix, *ids]
    # Not a user's question, which has to say something.
    chunks, question = [Chunk(tuple(ids))], Message("text", (text,))
    room, last_ids = _room(engine, chunks, "prompt"), ids[-8:]  # more than a character has
    return RequestPrompt(Conversation(), question, chunks, room, last_ids)


def _room(engine: Engine, chunks: Sequence[Chunk], param: str) -> int:
    length = engine.positions(chunks)
    positions = engine.target.model.config.text.max_position_embeddings
    if length >= positions:
        suffix = " with images" if any(pictures(chunks)) else ""
        reason = f"{param}: {length} or more tokens{suffix}; the model has {positions}"
        raise ApiError(400, reason, param, "context_length_exceeded")
    return positions - length


def read_conversation(
    request: ChatRequest, reader: ImageReader, most: int, calls: CallForm | None, system: str
) -> Conversation:
    """The conversation of a request, whose answers are texts without tokens; the last is open.

    most: the most images, which are counted before one is decoded.  calls: how answers write
    calls; None without tools.  system: the system text of a request that brings none.  Raises
    ApiError.
    """
    param, contents = request.param, [message.get("content") for message in request.messages]
    parts = [part for content in contents if isinstance(content, list) for part in content]
    images = sum(isinstance(part, dict) and part.get("type") in IMAGES for part in parts)
    if images > most:
        raise ApiError(400, f"{param}: {images} images, at most {most} are allowed", param)
    systems, turns, inputs = list[str](), list[Turn](), list[Message]()
    for message in request.messages:
        match message.text("role"):
            case "system" | "developer":
                if turns or inputs:
                    raise message.error("role", "user or assistant after the first of these")
                systems.append(_text(message))
            case "user":
                inputs.append(Message("user", tuple(_parts(message, reader))))
            case "tool":
                inputs.append(Message("tool", (_text(message),)))
            case "assistant":
                turns.append(_turn(inputs, _answer(message, calls)))
                inputs = []
            case _:
                raise message.error("role", "system, developer, user, assistant or tool")
    if not inputs:
        raise ApiError(400, f"{param}: the last message must be the user's or a tool's", param)
    turns.append(_turn(inputs))
    text = "\n\n".join(systems or [system]) or None
    return Conversation(text, turns, request.tools, request.thinking)


def _turn(inputs: list[Message], answer: str = "") -> Turn:
    *earlier, question = inputs or [Message("user", ())]
    return Turn(question, None, answer, tuple(earlier))


def _answer(message: Fields, form: CallForm | None) -> str:
    """The text of an answer with its calls, as the model writes them; it may be null."""
    text = "" if message.get("content") is None else _text(message)
    if not message.get("tool_calls") or form is None:
        return text
    return form.write(text, [*map(_call, message.blocks("tool_calls"))])


def _call(call: Fields) -> Call:
    function = call.block("function")
    try:
        arguments = read_value(dict[str, Any], parse_json(function.text("arguments") or "{}"))
    except ValueError as error:
        raise function.error("arguments", "the text of a JSON object") from error
    return Call(function.text("name"), arguments)


def _text(message: Fields) -> str:
    """The text of a message that cannot have images."""
    return "\n".join(map(str, _parts(message)))


def _parts(message: Fields, reader: ImageReader | None = None) -> list[str | Picture]:
    content = message.get("content")
    if isinstance(content, str):
        return [content]
    if not isinstance(content, list):
        raise message.error("content", "a string or a list of parts")
    return [_part(part, reader) for part in message.blocks("content")]


def _part(part: Fields, reader: ImageReader | None) -> str | Picture:
    kind = part.text("type")
    if kind in TEXTS:
        return part.text("text")
    if kind not in IMAGES:
        raise part.error("type", "text or image_url (in /v1/responses input_text or input_image)")
    block, key = (part.block(kind), "url") if kind == "image_url" else (part, "image_url")
    param = f"{block.path}{key}"
    if reader is None:
        raise ApiError(400, f"{param}: only the user's messages can show images", param)
    return reader.picture(block.text(key), param)
