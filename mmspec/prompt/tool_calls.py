"""Calls of tools, as a chat template writes them: JSON between two texts."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mmspec.ground.errors import CheckpointError, UsageError
from mmspec.ground.json_reader import parse_json
from mmspec.prompt.chat_template import ChatTemplate
from mmspec.prompt.text_stream import before_stop

SEPARATOR = "\n"
"""The text between two calls."""

_NAME, _ARGUMENTS = "mmspec_probe", {"key": "value"}
_TOOL = {
    "type": "function",
    "function": {"name": _NAME, "description": "", "parameters": {"type": "object"}},
}


@dataclass(frozen=True, slots=True)
class Call:
    """One call of a tool."""

    name: str
    arguments: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class CallForm:
    """How a template writes a call: `before`, an object with a name and arguments, `after`."""

    before: str
    key: str
    """The key of the arguments."""
    after: str

    @property
    def mark(self) -> str:
        """The text with which a call begins; empty if a call is the whole answer."""
        return self.before.strip()

    def write(self, text: str, calls: Sequence[Call]) -> str:
        """An answer of a text and calls after it."""
        objects = ({"name": call.name, self.key: call.arguments} for call in calls)
        texts = (f"{self.before}{json.dumps(o, ensure_ascii=False)}{self.after}" for o in objects)
        return SEPARATOR.join([*filter(None, [text]), *texts])

    def beginning(self, text: str) -> int:
        """How many of its characters an answer says before its calls, as far as it has come."""
        if not self.mark:
            return 0 if text.lstrip()[:1] in ("{", "") else len(text)
        return before_stop(text, [self.mark])[0]

    def read(self, text: str) -> list[Call]:
        """The calls in an answer; none if what follows the first mark is something else."""
        start = self.beginning(text)
        try:
            return list(self._calls(text[start:].strip()))
        except (ValueError, LookupError, TypeError, RecursionError):
            return []

    def _calls(self, text: str) -> Iterator[Call]:
        while text:
            if not text.startswith(self.mark):
                raise ValueError("no call")
            text = text.removeprefix(self.mark).lstrip()
            call, end = json.JSONDecoder().raw_decode(text)
            parse_json(text[:end])  # a ValueError for half a character or an infinite number
            name, arguments = call["name"], call[self.key]
            if not (isinstance(name, str) and isinstance(arguments, dict)):
                raise ValueError("no call")
            yield Call(name, arguments)
            text = text[end:].lstrip().removeprefix(self.after.strip()).lstrip()


def call_form(template: ChatTemplate) -> CallForm | None:
    """How a template writes calls; None if it has no tools, or writes calls in another way."""
    try:
        description, text = template.tool_texts(_TOOL, _NAME, _ARGUMENTS)
    except (CheckpointError, UsageError):
        return None
    if _NAME not in description:
        return None
    for start in (place for place, letter in enumerate(text) if letter == "{"):
        try:
            call, end = json.JSONDecoder().raw_decode(text, start)
        except ValueError:
            continue
        keys = [key for key, value in call.items() if value == _ARGUMENTS]
        if call.get("name") == _NAME and keys:
            return CallForm(text[:start], keys[0], text[end:])
    return None
