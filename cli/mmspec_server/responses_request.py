"""Reads the body of a request to `/v1/responses`."""

from dataclasses import replace

from mmspec.chat.options import Options
from mmspec_server.chat_request import (
    MOST_TOKENS,
    ChatRequest,
    likeliest,
    refuse_unsupported,
    sampling_options,
)
from mmspec_server.fields import Fields
from mmspec_server.images import ImageReader
from mmspec_server.messages import Dialogue, read_messages

LOGPROBS = "message.output_text.logprobs"
"""The value of `include` that asks for log-probabilities; others are ignored."""

REFUSED = {
    "previous_response_id": "left out: nothing is stored, so send the whole conversation",
    "conversation": "left out: nothing is stored, so send the whole conversation",
    "prompt": "left out: no prompts are stored",
    "background": "false or left out: answers are not stored",
}
"""Fields that need what is not stored, and what to do."""


def read_responses_request(fields: Fields, defaults: Options) -> ChatRequest:
    """The options of a request; raises ApiError for what cannot be done."""
    for name, allowed in REFUSED.items():
        if fields.get(name):
            raise fields.error(name, allowed)
    refuse_unsupported(fields)
    form = fields.block("text").block("format")
    if form.get("type", "text") != "text":
        raise form.error("type", "text: JSON schemas are not enforced")
    most = fields.integer("max_output_tokens", defaults.max_new_tokens, 1, MOST_TOKENS)
    options = replace(sampling_options(fields, defaults, most), logprobs=_logprobs(fields))
    return ChatRequest(options, stream=fields.flag("stream"))


def _logprobs(fields: Fields) -> int | None:
    """The number of likeliest tokens to report, if `include` names them; see `likeliest`."""
    included = fields.get("include", [])
    if not isinstance(included, list):
        raise fields.error("include", "a list of strings")
    return likeliest(fields, f'include: ["{LOGPROBS}"]', wanted=LOGPROBS in included)


def read_input(fields: Fields, reader: ImageReader, most_images: int) -> Dialogue:
    """The dialogue of `instructions` and `input`, a string or a list of messages."""
    if isinstance(fields.get("input"), str):
        dialogue = Dialogue(questions=[[fields.text("input")]])
    else:
        items = fields.blocks("input")
        for item in items:
            if item.get("type", "message") != "message":
                raise item.error("type", "message: no tools are called")
        dialogue = read_messages(items, reader, most_images, "input")
    instructions = fields.text("instructions", "")
    dialogue.system[:0] = [instructions] if instructions else []
    return dialogue
