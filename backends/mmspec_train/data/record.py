"""Conversations as tokens: the prompts and the answers.

Shape letters: n columns.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import chain, pairwise
from typing import Annotated, Any, Literal, NamedTuple

from mmspec.drafters.heads.packing import Span
from mmspec.families.family import Vision
from mmspec.families.grid import Grid
from mmspec.ground.json_reader import parse_json, read_value
from mmspec.ground.limits import Length, Range
from mmspec.prompt.chat_template import ChatTemplate
from mmspec.prompt.conversation import Conversation, Turn, render
from mmspec.prompt.images import Picture
from mmspec.prompt.tokenizer import Tokenizer

IGNORED = -100
"""Target of a column whose next token is not trained, as PyTorch's cross-entropy has it."""
Count = Annotated[int, Range(0, 10**15)]
PICTURE = -1
"""Placeholder id of an image in a record's prompts."""
MOST_ID = 2**31
Pixels = Annotated[int, Range(1, 2**20)]
SOME = Length(1, MOST_ID)
"""The length of an answer, which ends with a stop token if with no other."""
Place = tuple[int, int, int]
"""Where hidden states are in their file: first row, number of states, number of image rows."""
Sides = tuple[int, int]
"""Height and width of an image's pixel values."""


@dataclass(frozen=True, slots=True)
class ConversationRecord:
    """Token ids of a conversation: prompts with a PICTURE per image, answers with stop tokens."""

    number: int
    prompts: tuple[tuple[int, ...], ...]
    answers: tuple[tuple[int, ...], ...]
    stopped: tuple[bool, ...]
    """True for each answer that ends with a stop token; later turns do not read that token."""
    sides: tuple[Sides, ...] = ()
    """Those of each image, which decide its positions; empty for a target without vision."""
    place: Place | None = None
    """Where the cache has stored the target's hidden states; None if it has not."""

    @property
    def images(self) -> int:
        """The number of images in the conversation."""
        return sum(prompt.count(PICTURE) for prompt in self.prompts)

    @property
    def largest_id(self) -> int:
        """The largest token id of all prompts and answers; PICTURE if there is none."""
        return max(chain((PICTURE,), *self.prompts, *self.answers))

    def grids(self, vision: Vision | None) -> list[Grid]:
        """The visual positions of each image; empty for a target without vision."""
        return [vision.grid(*sides) for sides in self.sides] if vision else []

    def visual(self, vision: Vision | None) -> int:
        """The number of columns that all images take together, one each without vision."""
        return sum(grid.positions for grid in self.grids(vision)) if vision else self.images

    def columns(self, visual: int) -> int:
        """The number of columns if all images together take `visual` of them."""
        tokens = sum(map(len, chain(self.prompts, self.answers))) - sum(self.stopped)
        return tokens + visual - self.images

    def answered(
        self, answers: Sequence[Sequence[int]], stop: frozenset[int]
    ) -> "ConversationRecord":
        """Return the conversation with these answers, one to each prompt."""
        stopped = tuple(answer[-1] in stop for answer in answers)
        return replace(self, answers=_tuples(answers), stopped=stopped)

    def to_json(self) -> str:
        """Return the record as one line of JSON."""
        stopped = [int(s) for s in self.stopped]
        turns = self.prompts, self.answers, stopped
        return json.dumps([self.number, *turns, self.sides, *(self.place or ())])

    @classmethod
    def from_json(cls, line: str) -> "ConversationRecord":
        """Parse a line written by `to_json`; raises ValueError for another."""
        read = read_value(_Line, parse_json(line))
        if not len(read.prompts) == len(read.answers) == len(read.stopped):
            raise ValueError("its prompts, answers and ends of answers differ in number")
        if read.prompts and not read.prompts[0]:
            raise ValueError("its first prompt is empty")
        place = None if read.images is None else (read.first, read.states, read.images)
        stopped = tuple(map(bool, read.stopped))
        return cls(read.number, read.prompts, read.answers, stopped, read.sides, place)


class _Line(NamedTuple):
    """The record as JSON."""

    number: int
    prompts: tuple[tuple[Annotated[int, Range(PICTURE, MOST_ID)], ...], ...]
    answers: tuple[Annotated[tuple[Annotated[int, Range(0, MOST_ID)], ...], SOME], ...]
    stopped: tuple[Literal[0, 1], ...]
    sides: tuple[tuple[Pixels, Pixels], ...]
    first: Count = 0
    states: Count = 0
    images: Count | None = None


def lay_out(
    record: ConversationRecord, image_id: int, positions: Sequence[int]
) -> tuple[list[int], list[int], tuple[Span, ...]]:
    """Return a record's ids [n], targets [n] as in `Conversations`, and the columns of its images.

    positions: how many each image takes; empty if a single `image_id` stands for an image.
    """
    sizes = iter(positions)
    ids: list[int] = []
    targets: list[int] = []
    images: list[Span] = []
    turns = zip(record.prompts, record.answers, record.stopped, strict=True)
    for prompt, answer, stopped in turns:
        for token in prompt:
            size = next(sizes, 0) if token == PICTURE else 0
            if size:
                images.append((len(ids), len(ids) + size))
            ids += [image_id] * (size or 1) if token == PICTURE else [token]
        targets += [IGNORED] * (len(ids) - len(targets))
        if answer:
            targets[-1] = answer[0]
            targets += [after for _, after in pairwise(answer)] + [IGNORED] * (not stopped)
            ids += answer[: len(answer) - stopped]
    return ids, targets, tuple(images)


def tokenize(
    number: int, turns: list[Turn], template: ChatTemplate, tokenizer: Tokenizer, stop: int
) -> ConversationRecord:
    """Tokenize a conversation as a chat does; each answer of the dataset ends with `stop`."""
    chunks = render(Conversation(None, turns), template, tokenizer)
    prompts = tuple(chunk.parts for chunk in chunks if chunk.kind == "prompt")
    lead = _separator(prompts[-1], tokenizer.decode)
    answers = (
        (*tokenizer.encode_parts([lead + turn.answer_text], continues=True), stop) for turn in turns
    )
    marked = tuple(map(_marked, prompts))
    return ConversationRecord(number, marked, tuple(answers), (True,) * len(turns))


def is_caption(turns: Sequence[Turn]) -> bool:
    """True for one question with one image."""
    return len(turns) == 1 and len(turns[0].question.pictures) == 1


def tokenize_caption(
    number: int, turns: list[Turn], template: ChatTemplate, tokenizer: Tokenizer
) -> ConversationRecord:
    """Tokenize an image and its answer alone, which ends with a newline (LLaVA, first stage)."""
    [first, *_] = render(Conversation(None, turns), template, tokenizer)
    begin = tuple(token for token in _marked(first.parts)[:1] if token == tokenizer.bos_id)
    caption = tuple(tokenizer.encode_parts([f"{turns[0].answer_text}\n"]))
    return ConversationRecord(number, ((*begin, PICTURE),), (caption,), (True,))


def _separator(
    prompt: Sequence[tuple[int, ...] | Picture], decode: Callable[[Sequence[int]], str]
) -> str:
    """Return the text between prompt and answer: a space, unless the prompt ends with one."""
    last = prompt[-1] if prompt else ()
    ends_in_space = not isinstance(last, Picture) and decode(last)[-1:].isspace()
    return "" if ends_in_space else " "


def _marked(prompt: Sequence[tuple[int, ...] | Picture]) -> tuple[int, ...]:
    parts = ((PICTURE,) if isinstance(part, Picture) else part for part in prompt)
    return tuple(chain.from_iterable(parts))


def _tuples(lists: Any) -> tuple[tuple[int, ...], ...]:
    return tuple(map(tuple, lists))
