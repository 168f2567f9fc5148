"""Reads the requests that are answered: their options, and messages or a text."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from mmspec.chat.options import Options
from mmspec.prompt.conversation import Message, Turn
from mmspec.prompt.images import Picture
from mmspec_server.endpoint import ApiError, Fields
from mmspec_server.images import ImageReader

MOST_STOPS = 4
MOST_LOGPROBS = 20
MOST_TOKENS = 1_000_000
"""The largest `max_tokens` that can be asked for; an answer ends at the model's context."""

LOGPROBS = "message.output_text.logprobs"
"""The value of `include` that asks for log-probabilities; others are ignored."""

UNSUPPORTED = {
    "tools": "left out: no tools are called",
    "functions": "left out: no functions are called",
    "audio": "left out: answers are text",
    "logit_bias": "left out: it would change what the model says",
}
"""Fields that change the answer and cannot be obeyed, and what to do."""

CONTINUED = {
    "suffix": "left out: a text is continued at its end",
    "echo": "false or left out: the prompt is not repeated",
}
"""Fields of a text's continuation that cannot be obeyed, and what to do."""

STORED = {
    "previous_response_id": "left out: nothing is stored, so send the whole conversation",
    "conversation": "left out: nothing is stored, so send the whole conversation",
    "prompt": "left out: no prompts are stored",
    "background": "false or left out: answers are not stored",
}
"""Fields that need what is not stored, and what to do."""

SYSTEM = ("system", "developer")
IMAGES = ("image_url", "input_image")
TEXTS = ("text", "input_text", "output_text")


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """The options and messages of one answer."""

    options: Options
    messages: Sequence[Fields] = ()
    param: str = "messages"
    """The field that held the messages."""
    text: str | None = None
    """What the answer continues, in place of messages."""
    stream: bool = False
    include_usage: bool = False
    details: bool = False
    """True if the reply tells what was drafted, and all figures."""
    plain: bool = False
    """True if nothing is drafted."""
    form: Fields | None = None
    """The JSON schema that the answer obeys, if there is one."""


def read_chat_request(fields: Fields, defaults: Options) -> ChatRequest:
    """A request to `/v1/chat/completions`; options that it does not name are the server's.

    Raises ApiError for values out of range and for what cannot be done.
    """
    logprobs = _logprobs(fields, "logprobs: true", wanted=fields.flag("logprobs"))
    return replace(_completion(fields, defaults, logprobs), messages=fields.blocks("messages"))


def read_text_request(fields: Fields, defaults: Options) -> ChatRequest:
    """A request to `/v1/completions`, whose answer continues a text as it is."""
    fields.refuse(CONTINUED)
    fields.integer("best_of", 1, 1, 1)
    number = fields.integer("logprobs", 0, 0, MOST_LOGPROBS)
    logprobs = None if fields.get("logprobs") is None else number
    prompt = fields.get("prompt")
    [text] = prompt if isinstance(prompt, list) and len(prompt) == 1 else [prompt]
    if not isinstance(text, str) or not text:
        raise fields.error("prompt", "a text, or a list of one, that is not empty")
    return replace(_completion(fields, defaults, logprobs), text=text, param="prompt")


def _completion(fields: Fields, defaults: Options, logprobs: int | None) -> ChatRequest:
    """What both kinds of completions are asked for, without messages or text."""
    _refuse_unsupported(fields)
    stream, own = fields.flag("stream"), fields.block("mmspec")
    form = fields.block("response_format")
    older = fields.integer("max_tokens", defaults.max_new_tokens, 1, MOST_TOKENS)
    most = fields.integer("max_completion_tokens", older, 1, MOST_TOKENS)
    sampling = _sampling_options(fields, defaults, most)
    return ChatRequest(
        replace(sampling, logprobs=logprobs, stop_strings=_stops(fields)),
        stream=stream,
        include_usage=stream and fields.block("stream_options").flag("include_usage"),
        details=own.flag("details"),
        plain=own.flag("plain"),
        form=_form(form, form.block("json_schema")),
    )


def read_responses_request(fields: Fields, defaults: Options) -> ChatRequest:
    """A request to `/v1/responses`, whose `input` is a string or a list of messages."""
    fields.refuse(STORED)
    _refuse_unsupported(fields)
    most = fields.integer("max_output_tokens", defaults.max_new_tokens, 1, MOST_TOKENS)
    sampling = _sampling_options(fields, defaults, most)
    included = fields.get("include", [])
    if not isinstance(included, list):
        raise fields.error("include", "a list of strings")
    logprobs = _logprobs(fields, f'include: ["{LOGPROBS}"]', wanted=LOGPROBS in included)
    stream, messages = fields.flag("stream"), _input(fields)
    instructions = fields.text("instructions", "")
    first = [Fields({"role": "system", "content": instructions})] if instructions else []
    options = replace(sampling, logprobs=logprobs)
    form = fields.block("text").block("format")
    return ChatRequest(options, [*first, *messages], "input", stream=stream, form=_form(form, form))


def _input(fields: Fields) -> Sequence[Fields]:
    if isinstance(fields.get("input"), str):
        return [Fields({"role": "user", "content": fields.text("input")})]
    items = fields.blocks("input")
    for item in items:
        if item.get("type", "message") != "message":
            raise item.error("type", "message: no tools are called")
    return items


def _refuse_unsupported(fields: Fields) -> None:
    """Raise ApiError for fields that would be ignored although the answer depends on them."""
    fields.refuse(UNSUPPORTED)
    fields.integer("n", 1, 1, 1)
    for name in ("presence_penalty", "frequency_penalty"):
        if fields.number(name, 0.0, -2.0, 2.0):
            raise fields.error(name, "0 or left out: no token is made less likely")


def _form(form: Fields, named: Fields) -> Fields | None:
    """The JSON schema of an answer's form; None for text.  named: the object with the schema."""
    kind = form.get("type", "text")
    if kind == "text":
        return None
    if kind == "json_object":
        return Fields({"type": "object"}, f"{form.path}type")
    if kind != "json_schema":
        raise form.error("type", "text, json_object or json_schema")
    if not isinstance(named.get("schema"), dict):
        raise named.error("schema", "a JSON schema, which is an object")
    return Fields(named.get("schema"), f"{named.path}schema")


def _sampling_options(fields: Fields, defaults: Options, most_tokens: int) -> Options:
    """The server's options with a request's temperature, top_p, seed and length."""
    temperature = fields.number("temperature", defaults.sampling.temperature, 0, 2)
    top_p = fields.number("top_p", defaults.sampling.top_p, 0, 1)
    if not top_p:
        raise fields.error("top_p", "a number above 0 and at most 1")
    sampling = replace(defaults.sampling, temperature=temperature, top_p=top_p)
    seed = fields.integer("seed", defaults.seed, -(2**63), 2**64 - 1)
    return replace(defaults, sampling=sampling, seed=seed, max_new_tokens=most_tokens)


def _logprobs(fields: Fields, switch: str, *, wanted: bool) -> int | None:
    """The number of likeliest tokens to report; None if no log-probabilities are wanted.

    switch: the field and value by which they are wanted.
    """
    count = fields.integer("top_logprobs", 0, 0, MOST_LOGPROBS)
    if count and not wanted:
        raise fields.error("top_logprobs", f"left out without {switch}")
    return count if wanted else None


def _stops(fields: Fields) -> tuple[str, ...]:
    stops = fields.get("stop", [])
    stops = [stops] if isinstance(stops, str) else stops
    texts = isinstance(stops, list) and all(isinstance(stop, str) and stop for stop in stops)
    if not texts or len(stops) > MOST_STOPS:
        raise fields.error("stop", f"a string or a list of up to {MOST_STOPS}, none of them empty")
    return tuple(stops)


@dataclass(slots=True)
class Transcript:
    """The text and pictures of a request's messages; answers are text, not tokens."""

    system: list[str] = field(default_factory=list)
    questions: list[list[Message]] = field(default_factory=list)
    """The user's messages before each answer; there may be none."""
    answers: list[str] = field(default_factory=list)

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
        elif role in ("user", "assistant"):
            if not self.is_open:
                self.questions.append([])
            if role == "user":
                self.questions[-1].append(Message(role, tuple(_parts(message, reader.picture))))
            else:
                self.answers.append(_plain(message))
        else:
            raise message.error(
                "role", "system, developer, user or assistant (no tools are called)"
            )

    def turns(self) -> list[Turn]:
        """The turns without the tokens of their answers; the last one is open."""
        return [
            Turn(
                messages[-1] if messages else Message("user", ()), None, text, tuple(messages[:-1])
            )
            for messages, text in zip(self.questions, [*self.answers, ""], strict=True)
        ]


def read_transcript(request: ChatRequest, reader: ImageReader, most_images: int) -> Transcript:
    """The transcript of a request; decodes no image before they are counted.

    Raises ApiError for messages that no chat template can show.
    """
    param = request.param
    images = sum(map(_images, request.messages))
    if images > most_images:
        raise ApiError(400, f"{param}: {images} images, at most {most_images} are allowed", param)
    transcript = Transcript()
    for message in request.messages:
        transcript.add(message, reader)
    if not transcript.is_open:
        raise ApiError(400, f"{param}: the last message must be the user's", param)
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
