"""Samples, the facts that their answers must state, and the judge of those facts."""

import functools
import re
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
# A picture may show any word, so every word in capitals counts as a statement about it.
CAPITALS = r"((?-i:[A-Z]+))"


@dataclass(frozen=True, slots=True)
class Fact:
    """A checkable fact: of all `options`, `value` is true.

    `forms` are regular expressions in which `{}` stands for an option. An answer states an option
    wherever a form matches.
    """

    category: str
    value: str
    options: tuple[str, ...]
    forms: tuple[str, ...] = (SLOT,)


@dataclass(frozen=True, slots=True)
class Query:
    """A question about one fact, with the parts from which answers are composed.

    `clause` answers the question. `evidence` describes the picture; `steps` are the conclusions
    between evidence and clause. `about` is the shape that a follow-up question may call "it";
    `verdict` is "yes" or "no". Parts that a question lacks are empty. `derived` is True if the
    clause needs reasoning, such as a count or a comparison.
    """

    question: str
    clause: str
    evidence: str
    fact: Fact
    about: str = ""
    verdict: str = ""
    derived: bool = False
    steps: str = ""


@dataclass(frozen=True, slots=True)
class JudgedTurn:
    """A question with its answer and the facts that the answer must state.

    `images` is the number of images attached at this turn. The question has one `<image>` marker
    for each of them, or none if they come before the text.
    """

    question: str
    answer: str
    facts: tuple[Fact, ...] = ()
    images: int = 0


@dataclass(frozen=True, slots=True)
class Sample:
    """A conversation about images; `key` joins the keys of the images' contents."""

    task: str
    images: tuple[Image.Image, ...]
    turns: tuple[JudgedTurn, ...]
    key: str


def judge(fact: Fact, answer: str) -> bool:
    """Return whether the last statement of `answer` about the fact is true."""
    text, is_word = " ".join(answer.split()), fact.category == "word"
    statements = (
        (match.end(1), match.group(1).lower())
        for form in fact.forms
        for match in _pattern(form, fact.options, is_word).finditer(text)
    )
    _, option = max(statements, default=(0, ""))
    return option == fact.value.lower()


@functools.lru_cache(maxsize=4096)
def _pattern(form: str, options: tuple[str, ...], capitals: bool) -> re.Pattern[str]:
    longest_first = sorted(options, key=len, reverse=True)
    slot = CAPITALS if capitals else f"({'|'.join(map(re.escape, longest_first))})"
    return re.compile(r"\b" + form.replace(SLOT, rf"\b{slot}\b"), re.IGNORECASE)
