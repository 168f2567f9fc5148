"""JSON values become what annotations describe; others are refused by place, value and remedy."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, NamedTuple, TypedDict

import pytest

from mmspec.ground.json_reader import read_value
from mmspec.ground.limits import Keys, Matches, OneOf, Range
from mmspec.ground.mismatch import MismatchError, shown


class Step(NamedTuple):
    count: Annotated[int, Range(0, 9)]
    seconds: float
    levels: int | None = None


class Place(TypedDict):
    file: str


@dataclass(frozen=True)
class Whole:
    name: Annotated[str, Range(1, 5)]
    flag: bool
    steps: list[Step]
    ids: tuple[int, ...] | None
    costs: Mapping[Annotated[int, OneOf((1, 2, 8))], float]
    times: Annotated[dict[str, float], Keys(("total",))]
    shard: Annotated[str, Matches("[0-9]/[0-9]", "I/N")]
    place: Place
    kind: Literal["stop", "length"] = "stop"
    gamma: int | Literal["auto"] = "auto"
    notes: list[str] = field(default_factory=list)
    other: Any = None


GOOD = {
    "name": "é",
    "flag": True,
    "steps": [[1, 2], [0, 0.5, 3]],
    "ids": [1, 2],
    "costs": {"1": 1, "8": 0.5},
    "times": {"total": 1.0, "more": 2},
    "shard": "1/2",
    "place": {"file": "a", "line": 3},
}


def test_what_is_described_is_read():
    read = read_value(Whole, json.loads(json.dumps(GOOD)) | {"unknown": 1, "gamma": 3})
    assert read == Whole(
        "é", True, [Step(1, 2.0), Step(0, 0.5, 3)], (1, 2), {1: 1.0, 8: 0.5},
        {"total": 1.0, "more": 2.0}, "1/2", {"file": "a", "line": 3}, gamma=3,
    )  # fmt: skip
    assert read_value(Whole, GOOD | {"ids": None}).ids is None
    assert type(read.steps[0].seconds) is float


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"name": ""}, 'name is "", but must be a text, its length from 1 to 5'),
        ({"name": "\ud800"}, 'name is "\\ud800", but must be text without half of a surrogate'),
        ({"name": 3}, "name is 3, but must be a text, its length"),
        ({"flag": 1}, "flag is 1, but must be true or false"),
        ({"steps": {}}, "steps is {}, but must be a list"),
        ({"steps": [[0, 0], [10, 0]]}, "steps[1].count is 10, but must be an integer from 0 to 9"),
        ({"steps": [[True, 0]]}, "steps[0].count is true"),
        ({"steps": [[1]]}, "steps[0].seconds is missing, but must be there"),
        ({"steps": [[1, 2, 3, 4]]}, "steps[0] is [1, 2, 3, 4], but must be a list of at most 3"),
        ({"steps": [[1, float("nan")]]}, "steps[0].seconds is NaN, but must be a number"),
        ({"steps": [[1, 10**400]]}, "steps[0].seconds is 1000"),
        ({"ids": [1, None]}, "ids[1] is null, but must be an integer"),
        ({"costs": {"3": 1}}, 'costs.3 is 3, but must be 1 or 2 or 8'),
        ({"costs": {"one": 1}}, 'costs.one is "one", but must be 1 or 2 or 8'),
        ({"times": {}}, "times.total is missing, but must be there"),
        ({"shard": "1/22"}, 'shard is "1/22", but must be I/N'),
        ({"place": {}}, "place.file is missing"),
        ({"kind": "end"}, 'kind is "end", but must be "stop" or "length"'),
        ({"gamma": "most"}, 'gamma is "most", but must be an integer or "auto"'),
        ({"notes": ["a", 3]}, "notes[1] is 3, but must be a text"),
    ],
)  # fmt: skip
def test_what_is_not_is_refused_by_its_place(change, message):
    with pytest.raises(MismatchError) as error:
        read_value(Whole, GOOD | change)
    assert str(error.value).startswith(message)


@pytest.mark.parametrize("missing", ["name", "ids", "place"])
def test_a_field_without_a_default_must_be_there(missing):
    with pytest.raises(MismatchError, match=f"^{missing} is missing, but must be there"):
        read_value(Whole, {name: value for name, value in GOOD.items() if name != missing})


def test_a_long_value_is_cut():
    assert len(shown(list(range(100_000)))) == 61
    assert shown([[[1]], {"a": None}]) == '[[[1]], {"a": null}]'


@pytest.mark.parametrize("value", [[], [1], [1, 2, 3], None, {}])
def test_a_tuple_of_two_has_two_entries(value):
    assert read_value(tuple[int, float], [1, 2]) == (1, 2.0)
    with pytest.raises(MismatchError, match="must be a list of 2 entries"):
        read_value(tuple[int, float], value)
