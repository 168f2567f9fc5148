"""Facts an answer must state, and the judge that reads them out of an answer."""

import functools
import re
from collections.abc import Iterator
from dataclasses import dataclass

from PIL import Image

CATEGORIES = (
    "colour",
    "shape",
    "count",
    "position",
    "relation",
    "background",
    "chart",
    "word",
    "difference",
    "story",
)
SLOT = "{}"
# Written words are open-ended: anything in capitals is a statement about them.
CAPITALS = r"((?-i:[A-Z]+))"


@dataclass(frozen=True, slots=True)
class Fact:
    """One checkable statement: `value` is the one of `options` that holds.

    `forms` are regular expressions with one `{}` where a value stands; an answer states the
    fact wherever one of them matches with any of the options.
    """

    category: str
    value: str
    options: tuple[str, ...]
    forms: tuple[str, ...] = (SLOT,)


@dataclass(frozen=True, slots=True)
class Turn:
    """A question with its answer and the facts asked for.

    `images` is how many images of the sample are attached at this turn. The question has either
    no `<image>` marker, and the images come before it, or one for each image, in place.
    """

    question: str
    answer: str
    facts: tuple[Fact, ...]
    images: int = 0


@dataclass(frozen=True, slots=True)
class Sample:
    """A conversation about images; `key` joins the keys of its contents."""

    task: str
    images: tuple[Image.Image, ...]
    turns: tuple[Turn, ...]
    key: str


def judge(fact: Fact, answer: str) -> bool:
    """Say whether the last statement that `answer` makes about the fact is the right one."""
    last = max(_statements(fact, answer), default=None)
    return last is not None and last[1] == fact.value.lower()


def _statements(fact: Fact, answer: str) -> Iterator[tuple[int, str]]:
    """Yield the end and the value of every statement, lower case."""
    text = " ".join(answer.split())
    for form in fact.forms:
        for match in _pattern(form, fact.options, fact.category == "word").finditer(text):
            yield match.end(1), match.group(1).lower()


@functools.lru_cache(maxsize=4096)
def _pattern(form: str, options: tuple[str, ...], capitals: bool) -> re.Pattern[str]:
    longest_first = sorted(options, key=len, reverse=True)
    slot = CAPITALS if capitals else f"({'|'.join(map(re.escape, longest_first))})"
    return re.compile(r"\b" + form.replace(SLOT, rf"\b{slot}\b"), re.IGNORECASE)
