"""JSON values become what annotations describe; others are refused by place, value and remedy."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, NamedTuple, TypedDict

import pytest

from mmspec.ground.json_reader import MismatchError, parse_json, read_value
from mmspec.ground.limits import Length, Matches, Range


class Step(NamedTuple):
    count: Annotated[int, Range(0, 9)]
    seconds: Annotated[float, Range(0, 1e9)]
    levels: int | None = None


class Place(TypedDict):
    file: str


@dataclass(frozen=True)
class Whole:
    name: Annotated[str, Length(1, 5)]
    flag: bool
    steps: list[Step]
    ids: tuple[int, ...] | None
    costs: Mapping[Annotated[int, Range(1, 8)], float]
    shard: Annotated[str, Matches("[0-9]/[0-9]")]
    place: Place
    kind: Literal["stop", "length"] = "stop"
    notes: list[str] = field(default_factory=list)
    other: Any = None


GOOD = {
    "name": "é",
    "flag": True,
    "steps": [[1, 2], [0, 0.5, 3]],
    "ids": [1, 2],
    "costs": {"1": 1, "8": 0.5},
    "shard": "1/2",
    "place": {"file": "a"},
}


def test_what_is_described_is_read():
    read = read_value(Whole, parse_json(json.dumps(GOOD)) | {"unknown": 1})
    steps = [Step(1, 2.0), Step(0, 0.5, 3)]
    costs = {1: 1.0, 8: 0.5}
    assert read == Whole("é", True, steps, (1, 2), costs, "1/2", {"file": "a"})
    assert read_value(Whole, GOOD | {"ids": None}).ids is None
    assert type(read.steps[0].seconds) is float


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"name": ""}, 'name is "", but must be a text of length >= 1'),
        ({"flag": 1}, "flag is 1, but must be true or false"),
        ({"steps": [[0, 0], [10, 0]]}, "steps[1][0] is 10, but must be an integer <= 9"),
        ({"steps": [[1]]}, "steps[0] is [1], but must be a list of length 2 to 3"),
        ({"steps": [[1, float("nan")]]}, "steps[0][1] is NaN, but must be a number"),
        ({"steps": [[1, 10**400]]}, "steps[0][1] is 1000"),
        ({"ids": [1, None]}, "ids[1] is null, but must be an integer"),
        ({"costs": {"9": 1}}, 'costs is {"9": 1}, but must be an object with each key an integer'),
        ({"costs": {"1": 1, "2": "x"}}, 'costs is {"1": 1, "2": "x"}, but must be an object with'),
        ({"shard": "1/22"}, 'shard is "1/22", but must be a text matching regex'),
        ({"shard": "1/2\n"}, 'shard is "1/2\\n"'),
        ({"place": {}}, "place.file is missing, but must be there"),
        ({"notes": ["a", 3]}, "notes[1] is 3, but must be a text"),
    ],
)  # fmt: skip
def test_what_is_not_is_refused_by_its_place(change, message):
    with pytest.raises(MismatchError) as error:
        read_value(Whole, GOOD | change)
    assert str(error.value).startswith(message)


@pytest.mark.parametrize("text", ["[NaN]", "[Infinity]", "[1e400]", r'["\ud800"]', "[" * 99_999])
def test_text_that_no_value_stands_for_is_refused(text):
    with pytest.raises(ValueError, match=r"malformed|truncated|range|nested"):
        parse_json(text)
