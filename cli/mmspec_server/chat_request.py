"""Reads the requests that are answered: their options, and messages or a text."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any

from mmspec import Options
from mmspec.ground.json_file import Length, Range
from mmspec.ground.settings import SEEDS
from mmspec.prompt.chat_template import THINKING, Tool
from mmspec_server.endpoint import Fields

Stop = Annotated[str, Length(1, 100_000)]
MOST_LOGPROBS = 20
MOST_TOKENS = 1_000_000
"""The largest `max_tokens` that can be asked for; an answer ends at the model's context."""

LOGPROBS = "message.output_text.logprobs"
"""The value of `include` that asks for log-probabilities; others are ignored."""

ANSWER_REFUSALS = {
    "functions": "left out: no functions are called",
    "audio": "left out: answers are text",
    "logit_bias": "left out: it would change what the model says",
}
"""Fields that change the answer and cannot be obeyed, and what to do; for all addresses."""

TOOL_REFUSAL = {"tools": "left out: tools are called at /v1/chat/completions"}

TEXT_REFUSALS = TOOL_REFUSAL | {
    "suffix": "left out: a text is continued at its end",
    "echo": "false or left out: the prompt is not repeated",
}

RESPONSE_REFUSALS = TOOL_REFUSAL | dict.fromkeys(
    ("previous_response_id", "conversation", "prompt", "background"),
    "left out: nothing is stored, so send the whole conversation",
)


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
    tools: Sequence[Tool] = ()
    required_tools: Sequence[Tool] = ()
    """Tools of which the answer calls one at least, and says nothing else."""
    thinking: bool | None = None
    """Whether the answer may think; None leaves it to the chat template."""
    calls: int | None = None
    """The most calls of an answer; None: any number."""

    @property
    def speaks_of_tools(self) -> bool:
        """True if the prompt has tools, or calls and their results."""
        said = (each.get("role") == "tool" or each.get("tool_calls") for each in self.messages)
        return bool(self.tools) or any(said)


def read_chat(fields: Fields, defaults: Options) -> ChatRequest:
    """A request to `/v1/chat/completions`; `defaults` are the options that it does not name."""
    logprobs = _read_logprobs(fields, "logprobs: true", is_on=fields.flag("logprobs"))
    request = _read_completion(fields, defaults, logprobs)
    tools, choice = _read_tools(fields), fields.get("tool_choice", "auto")
    required_tools = _required_tools(fields, tools) if choice not in ("auto", "none") else []
    is_single = isinstance(choice, dict) or fields.get("parallel_tool_calls") is False
    template = fields.block("chat_template_kwargs")
    unknown = {*template.values} - {THINKING}
    template.refuse(dict.fromkeys(unknown, f"left out: {THINKING} alone is read"))
    if required_tools and request.form:
        raise fields.error("tool_choice", "auto or none beside a response_format")
    return replace(
        request,
        messages=fields.blocks("messages"),
        tools=[] if choice == "none" else tools,
        required_tools=required_tools,
        calls=1 if is_single else None,
        thinking=None if template.get(THINKING) is None else template.flag(THINKING),
    )


def _read_tools(fields: Fields) -> Sequence[Tool]:
    """The tools of a request."""
    tools = fields.blocks("tools") if fields.get("tools") else []
    for tool in tools:
        if tool.text("type") != "function":
            raise tool.error("type", "function")
        tool.block("function").text("name")
    return [tool.values for tool in tools]


def _required_tools(fields: Fields, tools: Sequence[Tool]) -> Sequence[Tool]:
    """The tools of which `tool_choice` requires a call."""
    choice = fields.get("tool_choice")
    if not tools:
        raise fields.error("tool_choice", "auto or none without tools")
    if isinstance(choice, dict):
        name = fields.block("tool_choice").block("function").text("name")
        tools = [tool for tool in tools if tool["function"]["name"] == name]
    if not tools or not (isinstance(choice, dict) or choice == "required"):
        choices = 'auto, none, required or {"type": "function", "function": {"name": one of tools}}'
        raise fields.error("tool_choice", choices)
    return tools


def read_text(fields: Fields, defaults: Options) -> ChatRequest:
    """A request to `/v1/completions`, whose answer continues a text as it is."""
    fields.refuse(TEXT_REFUSALS)
    fields.integer("best_of", 1, 1, 1)
    logprobs = fields.read("logprobs", Annotated[int, Range(0, MOST_LOGPROBS)] | None, None)
    prompt = fields.get("prompt")
    [text] = prompt if isinstance(prompt, list) and len(prompt) == 1 else [prompt]
    if not isinstance(text, str) or not text:
        raise fields.error("prompt", "a text, or a list of one, that is not empty")
    return replace(_read_completion(fields, defaults, logprobs), text=text, param="prompt")


def _read_completion(fields: Fields, defaults: Options, logprobs: int | None) -> ChatRequest:
    """What requests for both kinds of completions have, without messages or text."""
    form = fields.block("response_format")
    most = fields.integer("max_tokens", defaults.max_new_tokens, 1, MOST_TOKENS)
    most = fields.integer("max_completion_tokens", most, 1, MOST_TOKENS)
    request = _read_common(fields, replace(defaults, max_new_tokens=most, logprobs=logprobs))
    return replace(request, form=_read_form(form, form.block("json_schema")))


def read_responses(fields: Fields, defaults: Options) -> ChatRequest:
    """A request to `/v1/responses`, whose `input` is a string or a list of messages."""
    fields.refuse(RESPONSE_REFUSALS)
    most = fields.integer("max_output_tokens", defaults.max_new_tokens, 1, MOST_TOKENS)
    has_logprobs = LOGPROBS in fields.read("include", list[Any], [])
    logprobs = _read_logprobs(fields, f'include: ["{LOGPROBS}"]', is_on=has_logprobs)
    request = _read_common(fields, replace(defaults, max_new_tokens=most, logprobs=logprobs))
    instructions, form = fields.text("instructions", ""), fields.block("text").block("format")
    first = [Fields({"role": "system", "content": instructions})] if instructions else []
    text = fields.get("input")
    is_text = isinstance(text, str)
    items = [Fields({"role": "user", "content": text})] if is_text else fields.blocks("input")
    for item in items:
        if item.get("type", "message") != "message":
            raise item.error("type", "message: no tools are called")
    messages = [*first, *items]
    return replace(request, messages=messages, param="input", form=_read_form(form, form))


def _read_common(fields: Fields, defaults: Options) -> ChatRequest:
    """What requests to every address have; raises ApiError for what cannot be done."""
    fields.refuse(ANSWER_REFUSALS)
    fields.integer("n", 1, 1, 1)
    for name in ("presence_penalty", "frequency_penalty"):
        if fields.number(name, 0.0, -2.0, 2.0):
            raise fields.error(name, "0 or left out: no token is made less likely")
    temperature = fields.number("temperature", defaults.sampling.temperature, 0, 2)
    top_p = fields.number("top_p", defaults.sampling.top_p, 0, 1)
    if not top_p:
        raise fields.error("top_p", "a number above 0 and at most 1")
    stream, extension = fields.flag("stream"), fields.block("mmspec")
    stops = fields.read("stop", Stop | Annotated[list[Stop], Length(0, 4)], [])
    options = replace(
        defaults,
        sampling=replace(defaults.sampling, temperature=temperature, top_p=top_p),
        seed=fields.integer("seed", defaults.seed, SEEDS[0], SEEDS[-1]),
        repeat_limit=extension.integer("repeat_limit", defaults.repeat_limit, 0, MOST_TOKENS),
        stop_strings=(stops,) if isinstance(stops, str) else tuple(stops),
    )
    usage = stream and fields.block("stream_options").flag("include_usage")
    details, plain = extension.flag("details"), extension.flag("plain")
    return ChatRequest(options, stream=stream, include_usage=usage, details=details, plain=plain)


def _read_form(form: Fields, holder: Fields) -> Fields | None:
    """The JSON schema of an answer's form; None for text.  holder: the object with the schema."""
    kind = form.get("type", "text")
    if kind == "text":
        return None
    if kind == "json_object":
        return Fields({"type": "object"}, f"{form.path}type")
    if kind != "json_schema":
        raise form.error("type", "text, json_object or json_schema")
    return Fields(holder.read("schema", dict[str, Any], None), f"{holder.path}schema")


def _read_logprobs(fields: Fields, switch: str, *, is_on: bool) -> int | None:
    """The number of likeliest tokens to report; None unless `switch`, a field's value, is on."""
    count = fields.integer("top_logprobs", 0, 0, MOST_LOGPROBS)
    if count and not is_on:
        raise fields.error("top_logprobs", f"left out without {switch}")
    return count if is_on else None
