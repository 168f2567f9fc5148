"""One line of LLaVA's instruction format: read, or refused in words for whoever wrote it."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from mmspec.bench.prompts import MARKER

FORMAT = (
    '{"image": "a.jpg", "conversations": [{"from": "human", "value": "<image>\\nWhat is this?"}, '
    '{"from": "gpt", "value": "A cat."}]}'
)
"""A line as it may be; `image` may be a list, or missing."""


@dataclass(frozen=True, slots=True)
class Instructions:
    """What one line holds."""

    asked: tuple[str, ...]
    """One MARKER for each image."""
    told: tuple[str, ...]
    images: tuple[str, ...]
    """Paths."""


def read(line: bytes) -> Instructions:
    """Read a line.  Raises ValueError, whose text says what is wrong with it."""
    value = _parsed(line)
    if not isinstance(value, dict):
        raise ValueError(f"the line is {_called(value)}, not an object")
    turns = value.get("conversations")
    if not isinstance(turns, list):
        raise ValueError(f'"conversations" is {_called(turns)}, not a list of turns')
    said = [_turn(number, turn) for number, turn in enumerate(turns, start=1)]
    images = _paths(value.get("image", []))
    return _paired(said, images)


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
    """Who speaks, and what."""
    if not isinstance(turn, dict):
        raise ValueError(f"turn {number} is {_called(turn)}, not an object")
    for key in ("from", "value"):
        if not isinstance(turn.get(key), str):
            raise ValueError(f'"{key}" of turn {number} is {_called(turn.get(key))}, not a string')
    return turn["from"], turn["value"]


def _paths(value: Any) -> list[str]:
    paths = [value] if isinstance(value, str) else value
    if not isinstance(paths, list) or not all(isinstance(path, str) for path in paths):
        raise ValueError(f'"image" is {_called(value)}, not a path or a list of paths')
    return paths


def _paired(said: Sequence[tuple[str, str]], images: Sequence[str]) -> Instructions:
    sides = [who for who, _ in said]
    if sides != ["human", "gpt"] * (len(said) // 2) or not said:
        raise ValueError(f"turns must be human, gpt, human, gpt ...: got {', '.join(sides)}")
    asked, told = (tuple(text for _, text in said[side::2]) for side in (0, 1))
    markers = sum(text.count(MARKER) for text in asked)
    if markers != len(images):
        raise ValueError(f"the questions have {markers} {MARKER} for {len(images)} images")
    return Instructions(asked, told, tuple(images))


def _called(value: Any) -> str:
    if value is None:
        return "missing"
    names = {dict: "an object", list: "a list", str: "a string", bool: "true or false"}
    return names.get(type(value), "a number")
