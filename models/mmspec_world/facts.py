"""Samples, and the facts that their answers must state."""

from dataclasses import dataclass

from PIL import Image

SLOT = "{}"


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
    `verdict` is "yes" or "no". Parts that a question lacks are empty. `needs_reasoning` is True if
    the clause is a conclusion, such as a count or a comparison.
    """

    question: str
    clause: str
    evidence: str
    fact: Fact
    about: str = ""
    verdict: str = ""
    needs_reasoning: bool = False
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
