"""Reader of one conversation in the format of LLaVA's and ShareGPT's files.

Odd conversations are repaired as LLaVA's, EAGLE's and MSD's data preparation does; those on which
that code stops are refused.
"""

from dataclasses import dataclass
from typing import Any

from mmspec.prompt.conversation import IMAGE_MARKER

FORMAT = (
    '{"image": "a.jpg", "conversations": [{"from": "human", "value": "<image>\\nWhat is this?"}, '
    '{"from": "gpt", "value": "A cat."}]}'
)
"""An example conversation. `image` may also be a list, null, or missing."""

Texts = list[tuple[str, str]]
"""Role and text of each turn."""


class UnusableError(ValueError):
    """A conversation that cannot be trained on; `reason` counts it with others like it."""

    def __init__(self, reason: str, detail: str = "") -> None:
        super().__init__(detail or reason)
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Instructions:
    """The turns and images of one conversation."""

    turns: tuple[tuple[str, str], ...]
    """The question and the answer of each turn.

    Questions have one IMAGE_MARKER per image; without images a marker is text that somebody typed.
    """
    images: tuple[str, ...]
    """Image paths as the file gives them."""
    repairs: tuple[str, ...] = ()
    """What was odd and is repaired, each as the words after a count."""


def read_instructions(value: Any) -> Instructions:
    """Read a conversation from a JSON value.  Raises UnusableError."""
    if not isinstance(value, dict):
        raise _malformed(f"it is {_described(value)}, not an object")
    turns = value.get("conversations")
    if not isinstance(turns, list):
        raise _malformed(f'"conversations" is {_described(turns)}, not a list of turns')
    repairs: list[str] = []
    texts = _alternating([_turn(number, turn) for number, turn in enumerate(turns, 1)], repairs)
    paths = _paths(value, repairs)
    questions, images = _shown([text for _, text in texts[::2]], paths, repairs)
    answers = [text for _, text in texts[1::2]]
    pairs = tuple(zip(questions, answers, strict=True))
    return Instructions(pairs, tuple(images), tuple(repairs))


def _turn(number: int, turn: Any) -> tuple[str, str]:
    if not isinstance(turn, dict):
        raise _malformed(f"turn {number} is {_described(turn)}, not an object")
    for key in ("from", "value"):
        if not isinstance(turn.get(key), str):
            got = _described(turn.get(key))
            raise _malformed(f'"{key}" of turn {number} is {got}, not a string')
    return turn["from"], turn["value"]


def _alternating(turns: Texts, repairs: list[str]) -> Texts:
    """Questions and answers in turn, without a leading answer and a trailing question."""
    roles = [role for role, _ in turns]
    strange = [role for role in roles if role not in ("human", "gpt")]
    if strange:
        raise UnusableError("with a role other than human and gpt", f"a turn is from {strange[0]}")
    if roles[:1] == ["gpt"]:
        turns = turns[1:]
        repairs.append("began with an answer")
    if len(turns) % 2:
        turns = turns[:-1]
        repairs.append("ended with a question")
    if [role for role, _ in turns] != ["human", "gpt"] * (len(turns) // 2):
        raise UnusableError("with two turns of one role in a row")
    if not turns:
        raise UnusableError("without a question and an answer")
    return turns


def _paths(value: dict[str, Any], repairs: list[str]) -> list[str]:
    image = value.get("image", [])
    if image is None or image == "":
        repairs.append("had a null image")
        return []
    paths = [image] if isinstance(image, str) else image
    if not isinstance(paths, list) or not all(isinstance(path, str) for path in paths):
        raise _malformed(f'"image" is {_described(image)}, not a path or a list of paths')
    return paths


def _shown(
    questions: list[str], images: list[str], repairs: list[str]
) -> tuple[list[str], list[str]]:
    """The questions with one marker for each image, and the images that they show.

    LLaVA drops an image that no question shows, and shows a single image once in a question
    whatever the number of its markers.
    """
    markers = [text.count(IMAGE_MARKER) for text in questions]
    if not images:
        repairs += ["typed <image> as text"] * any(markers)
        return questions, []
    if not any(markers):
        repairs.append("did not show their image")
        return questions, []
    if len(images) == 1 and max(markers) > 1:
        questions = [_once(text) for text in questions]
        repairs.append("repeated <image> for one image")
    shown = sum(text.count(IMAGE_MARKER) for text in questions)
    if shown != len(images):
        detail = f"the questions have {shown} {IMAGE_MARKER} for {len(images)} images"
        raise UnusableError("with another number of <image> than of images", detail)
    return questions, images


def _once(question: str) -> str:
    """The question with one marker in front in place of all its markers."""
    if IMAGE_MARKER not in question:
        return question
    return f"{IMAGE_MARKER}\n{question.replace(IMAGE_MARKER, '').strip()}"


def _malformed(detail: str) -> UnusableError:
    return UnusableError("in another format", detail)


def _described(value: Any) -> str:
    if value is None:
        return "missing"
    names = {dict: "an object", list: "a list", str: "a string", bool: "true or false"}
    return names.get(type(value), "a number")
