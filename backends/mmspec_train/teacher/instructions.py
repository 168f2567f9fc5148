"""Reader of one line in LLaVA's instruction format."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from mmspec.prompt.conversation import IMAGE_MARKER

FORMAT = (
    '{"image": "a.jpg", "conversations": [{"from": "human", "value": "<image>\\nWhat is this?"}, '
    '{"from": "gpt", "value": "A cat."}]}'
)
"""An example line. `image` may also be a list, or missing."""


@dataclass(frozen=True, slots=True)
class Instructions:
    """The turns and images of one line."""

    turns: tuple[tuple[str, str], ...]
    """The question and the answer of each turn; questions have one IMAGE_MARKER per image."""
    images: tuple[str, ...]
    """Image paths as the line gives them."""


def read_instructions(line: bytes) -> Instructions:
    """Parse a line.  Raises ValueError with a message that says what is wrong."""
    value = _parsed(line)
    if not isinstance(value, dict):
        raise ValueError(f"the line is {_described(value)}, not an object")
    turns = value.get("conversations")
    if not isinstance(turns, list):
        raise ValueError(f'"conversations" is {_described(turns)}, not a list of turns')
    texts = [_turn(number, turn) for number, turn in enumerate(turns, start=1)]
    return _paired(texts, _paths(value.get("image", [])))


def _parsed(line: bytes) -> Any:
    try:
        return json.loads(line.decode("utf-8-sig"))
    except json.JSONDecodeError as error:
        if line.startswith(b"["):
            raise ValueError("this begins an array: make lines of it with jq -c '.[]'") from error
        raise ValueError(f"not JSON: {error.msg}, at character {error.pos + 1}") from error
    except UnicodeDecodeError as error:
        raise ValueError("not text in UTF-8") from error


def _turn(number: int, turn: Any) -> tuple[str, str]:
    if not isinstance(turn, dict):
        raise ValueError(f"turn {number} is {_described(turn)}, not an object")
    for key in ("from", "value"):
        if not isinstance(turn.get(key), str):
            got = _described(turn.get(key))
            raise ValueError(f'"{key}" of turn {number} is {got}, not a string')
    return turn["from"], turn["value"]


def _paths(value: Any) -> list[str]:
    paths = [value] if isinstance(value, str) else value
    if not isinstance(paths, list) or not all(isinstance(path, str) for path in paths):
        raise ValueError(f'"image" is {_described(value)}, not a path or a list of paths')
    return paths


def _paired(turns: Sequence[tuple[str, str]], images: Sequence[str]) -> Instructions:
    roles = [role for role, _ in turns]
    if roles != ["human", "gpt"] * (len(turns) // 2) or not turns:
        raise ValueError(f"turns must be human, gpt, human, gpt ...: got {', '.join(roles)}")
    texts = [text for _, text in turns]
    markers = sum(text.count(IMAGE_MARKER) for text in texts[::2])
    if markers != len(images):
        raise ValueError(f"the questions have {markers} {IMAGE_MARKER} for {len(images)} images")
    return Instructions(tuple(zip(texts[::2], texts[1::2], strict=True)), tuple(images))


def _described(value: Any) -> str:
    if value is None:
        return "missing"
    names = {dict: "an object", list: "a list", str: "a string", bool: "true or false"}
    return names.get(type(value), "a number")
